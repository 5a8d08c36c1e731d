"""A run on many nodes as a discrete-event simulation: nodes die, hosts stay away, networks part, one
rank is slow. Every decision is that of `ttf.supervise.decide`; nothing here decides.

The time of the next event of each kind is in `_due`; the loop takes the earliest. A run ends
finished, given up, or at its time limit; `stuck` says why no progress can follow any more.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ttf.supervise.decide import decide, initial, wake_at
from ttf.supervise.events import (
    Action,
    Beat,
    Checkpointed,
    Configured,
    Died,
    Ended,
    EndWithError,
    Event,
    Finish,
    GiveUp,
    Kill,
    Life,
    SaveEvery,
    Settings,
    Spawn,
    Started,
    Stop,
    Tick,
)
from ttf.training.plan import scale

DAY_S: Final = 86_400.0
_NEVER: Final = math.inf
_KILLED_AFTER_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The nodes, their network and the run. Rates are per day; durations are means of exponential
    distributions where they say so."""

    nodes: int
    step_s: float = 2.0
    deaths_per_node_day: float = 6.5e-3
    silent: float = 1.0  # share of deaths that only the time limit of the exchange notices
    notice_s: float = 0.05  # of the others: a closed connection
    absent_s: float = 0.0  # mean, until a dead node or another in its place is there
    partitions_per_day: float = 0.0
    partition_s: float = 30.0  # mean
    stragglers_per_day: float = 0.0
    straggler_s: float = 600.0  # mean
    slowdown: float = 3.0  # of the whole run, while one rank is slow
    exchange_timeout_s: float = 60.0
    join_s: float = 300.0
    patience_s: float = 3600.0
    restart_s: float = 6.0
    every_s: float = 60.0  # checkpoint.every_s
    snapshot_s: float = 0.05  # what a checkpoint beside the training delays it
    save_s: float = 0.3  # until it is durable
    max_restarts: int = 5
    beat_s: float = 10.0  # one sign of life stands for the steps between


@dataclass(frozen=True, kw_only=True)
class Outcome:
    ended: str  # 'finished', 'gave up', 'error', 'lost patience', 'time'
    stuck: str  # why no progress can follow; '' if it can, or the run is over
    wall_s: float
    useful_s: float  # time of the steps that count
    steps: int
    deaths: int
    spawns: int
    deciders_lost: int

    @property
    def goodput(self) -> float:
        return self.useful_s / self.wall_s if self.wall_s else 0.0


def expected_goodput(fleet: Fleet) -> float:
    """By the formulas of the plan, for deaths alone."""
    noticed_s = fleet.silent * fleet.exchange_timeout_s + (1 - fleet.silent) * fleet.notice_s
    mtbf = scale.mtbf_s(fleet.nodes, fleet.deaths_per_node_day)
    restart_s = noticed_s + fleet.absent_s + fleet.restart_s
    return 1 - scale.waste(fleet.snapshot_s, fleet.every_s, mtbf, restart_s)


def simulate(fleet: Fleet, seed: int, *, steps: float = _NEVER, until_s: float) -> Outcome:
    return _Simulation(fleet, seed, steps, until_s).run()


class _Simulation:
    def __init__(self, fleet: Fleet, seed: int, steps: float, until_s: float) -> None:
        self._fleet = fleet
        self._draw = random.Random(seed)
        self._goal = steps
        self._now = 0.0
        self._settings = Settings(max_restarts=fleet.max_restarts)
        self._mode = "waiting"  # for all nodes; then 'starting', 'training'
        self._done = 0.0  # steps
        self._since = 0.0  # steps are done from here on
        self._kept = -1  # step of the newest durable checkpoint
        self._being_saved = 0
        self._save_every = 0
        self._slow = False
        self._parted = False
        self._dead = False  # a rank of this attempt
        self._cause = ""
        self._left_to_start = 0.0
        self._began = 0.0
        self._ready = (0.0, 0.0)  # time and steps at the first step of this attempt
        self._back_at = 0.0  # when the last missing node is there
        self._ended = ""
        self._stuck = ""
        self._in_vain = 0  # starts since the newest checkpoint
        self._progress_at = 0.0
        self._deaths = self._spawns = self._deciders_lost = 0
        self._due: dict[str, float] = dict.fromkeys(_HANDLERS, _NEVER)
        self._due["limit"] = until_s
        self._state, actions = initial(0.0, settings=self._settings)
        self._plan_fates()
        self._carry_out(actions)

    def run(self) -> Outcome:
        while not self._ended:
            wakes = wake_at(self._state)
            self._due["wake"] = _NEVER if wakes is None else max(wakes, self._now)
            name = min(self._due, key=self._due.__getitem__)
            if self._due[name] == _NEVER:
                self._ended, self._stuck = "time", "nothing can happen any more"
                break
            self._now = self._due[name]
            if name != "wake":
                self._due[name] = _NEVER
            _HANDLERS[name](self)
        return Outcome(
            ended=self._ended,
            stuck=self._stuck,
            wall_s=self._now,
            useful_s=self._done * self._fleet.step_s,
            steps=int(self._done),
            deaths=self._deaths,
            spawns=self._spawns,
            deciders_lost=self._deciders_lost,
        )

    # --- what fate sends ----------------------------------------------------------------------

    def _plan_fates(self) -> None:
        fleet = self._fleet
        self._next("death", fleet.nodes * fleet.deaths_per_node_day)
        self._next("part", fleet.partitions_per_day)
        self._next("slow", fleet.stragglers_per_day)

    def _next(self, name: str, per_day: float) -> None:
        self._due[name] = (
            self._now + self._draw.expovariate(per_day / DAY_S) if per_day > 0 else _NEVER
        )

    def _lasting(self, mean_s: float) -> float:
        return self._draw.expovariate(1 / mean_s) if mean_s > 0 else 0.0

    def _death(self) -> None:
        fleet = self._fleet
        self._deaths += 1
        self._next("death", fleet.nodes * fleet.deaths_per_node_day)
        self._back_at = max(self._back_at, self._now + self._lasting(fleet.absent_s))
        silent = self._draw.random() < fleet.silent
        if self._draw.randrange(fleet.nodes) == 0:
            self._lose_decider()
        elif self._mode != "waiting":
            self._work()
            self._dead = True
            after = fleet.exchange_timeout_s if silent else fleet.notice_s
            self._lose(after, "network-partition" if silent else "segfault")

    def _lose_decider(self) -> None:
        """The host of node 0: what its supervisor knew is gone but for its journal. A person or a
        service starts it again, and must have the patience: the restarts in vain are forgotten."""
        self._deciders_lost += 1
        if self._now - self._progress_at > self._fleet.patience_s:
            self._ended = "lost patience"
            return
        self._work()
        self._end_attempt()
        self._in_vain = 0
        self._state, actions = initial(
            self._now, history=self._state.history, settings=self._settings
        )
        self._carry_out(actions)

    def _part(self) -> None:
        self._next("part", self._fleet.partitions_per_day)
        heals = self._now + self._lasting(self._fleet.partition_s)
        if self._parted:
            self._due["heal"] = max(self._due["heal"], heals)
            return
        self._work()
        self._parted = True
        self._due["heal"] = heals
        if self._mode == "training":
            self._lose(self._fleet.exchange_timeout_s, "network-partition")
        elif self._mode == "starting":
            self._left_to_start = self._due["ready"] - self._now
            self._due["ready"] = _NEVER
            self._lose(self._began + self._fleet.join_s - self._now, "rendezvous-failed")

    def _heal(self) -> None:
        self._parted = False
        if self._mode == "waiting":
            self._try_to_start()
        elif not self._dead:
            self._due["lost"] = _NEVER
            self._since = self._now
            if self._mode == "starting":
                self._due["ready"] = self._now + self._left_to_start
            else:
                if self._due["save"] == _NEVER:
                    self._due["save"] = self._now
                self._go_on()

    def _slow_down(self) -> None:
        self._next("slow", self._fleet.stragglers_per_day)
        self._work()
        self._slow = True
        self._due["calm"] = self._now + self._lasting(self._fleet.straggler_s)
        if self._mode == "training":
            self._go_on()

    def _calm(self) -> None:
        self._work()
        self._slow = False
        if self._trains:
            if self._cause == "straggler":
                self._due["lost"] = _NEVER
            self._go_on()

    # --- the trainers of an attempt -----------------------------------------------------------

    @property
    def _trains(self) -> bool:
        return self._mode == "training" and not self._dead and not self._parted

    @property
    def _step_s(self) -> float:
        return self._fleet.step_s * (self._fleet.slowdown if self._slow else 1.0)

    def _work(self) -> None:
        """Counts what was done up to now."""
        if self._trains and self._now > self._since:
            self._done = min(self._goal, self._done + (self._now - self._since) / self._step_s)
            self._since = self._now

    def _try_to_start(self) -> None:
        """All nodes must be there: supervisors wait for one another before a trainer starts."""
        if self._mode != "waiting" or self._due["spawn"] != _NEVER:
            return
        if self._parted or self._now < self._back_at:
            if self._due["patience"] == _NEVER:
                self._due["patience"] = self._now + self._fleet.patience_s
            self._due["spawn"] = self._back_at if self._back_at > self._now else _NEVER
            return
        self._due["patience"] = _NEVER
        self._mode, self._dead, self._began = "starting", False, self._now
        self._tell(Started(now=self._now))
        flat = {"checkpoint.every_s": self._fleet.every_s, "checkpoint.every_steps": None}
        self._tell(Configured(now=self._now, settings=self._settings, flat=flat))
        self._due["ready"] = self._now + self._fleet.restart_s

    def _lose_patience(self) -> None:
        self._ended = "lost patience"

    def _get_ready(self) -> None:
        if self._dead:
            return
        self._mode = "training"
        self._done = float(max(self._kept, 0))
        self._ready = (self._now, self._done)
        self._since = self._now
        self._tell(Beat(now=self._now, at=self._now, step=int(self._done), phase="forward"))
        self._plan_save()
        self._go_on()

    def _go_on(self) -> None:
        """A step that takes longer than the others wait for it is lost."""
        self._due["beat"] = max(self._now, self._since) + max(self._fleet.beat_s, self._step_s)
        self._plan_goal()
        if self._step_s > self._fleet.exchange_timeout_s:
            self._lose(self._fleet.exchange_timeout_s, "straggler")

    def _plan_goal(self) -> None:
        left = (self._goal - self._done) * self._step_s
        self._due["goal"] = max(self._now, self._since) + left

    def _beat(self) -> None:
        self._work()
        if not self._trains:
            return
        step = int(self._done)
        phase = "forward" if step % 2 else "backward"
        self._tell(Beat(now=self._now, at=self._now, step=step, phase=phase))
        self._go_on()

    def _reach_goal(self) -> None:
        self._work()
        if self._trains:
            self._done = self._goal
            self._tell(Ended(now=self._now, exit_code=0))

    def _plan_save(self) -> None:
        every = self._save_every * self._step_s if self._save_every else self._fleet.every_s
        self._due["save"] = max(self._now, self._since) + max(every, self._step_s)

    def _save(self) -> None:
        self._work()
        if not self._trains:
            return
        if self._due["saved"] != _NEVER:  # the one before is still being written
            return
        self._being_saved = int(self._done)
        self._due["saved"] = self._now + self._fleet.save_s
        # One that is asked for by the supervisor is waited for.
        self._since = self._now + (
            self._fleet.save_s if self._save_every else self._fleet.snapshot_s
        )
        self._plan_save()
        self._plan_goal()

    def _saved(self) -> None:
        # The thread that writes it lives on while the others wait for a rank.
        if self._being_saved > self._kept:
            self._in_vain, self._progress_at = 0, self._now
        self._kept = max(self._kept, self._being_saved)
        at, done = self._ready
        lived = Life(steps=int(self._done - done), seconds=self._now - at)
        self._tell(
            Checkpointed(now=self._now, step=self._kept, cost_s=self._fleet.save_s, lived=lived)
        )
        if self._due["save"] == _NEVER:
            self._due["save"] = self._now

    def _lose(self, after_s: float, cause: str) -> None:
        at = self._now + max(0.0, after_s)
        if at < self._due["lost"]:
            self._due["lost"], self._cause = at, cause

    def _lost(self) -> None:
        self._work()
        trained = self._mode == "training"
        at, done = self._ready
        steps = int(self._done)
        lived = Life(steps=int(self._done - done), seconds=self._now - at) if trained else None
        self._end_attempt()
        self._tell(
            Died(
                now=self._now,
                incident=f"{self._deaths:03}",
                name=self._cause,
                certain=False,
                step=steps,
                phase="forward" if trained else "start",
                checkpoint_step=self._kept,
                lived=lived,
            )
        )

    def _end_attempt(self) -> None:
        self._mode, self._dead = "waiting", False
        self._done = float(max(self._kept, 0))
        for name in ("beat", "goal", "save", "saved", "ready", "lost", "spawn"):
            self._due[name] = _NEVER

    # --- the supervisor -----------------------------------------------------------------------

    def _wake(self) -> None:
        self._tell(Tick(now=self._now))

    def _tell(self, event: Event) -> None:
        self._state, actions = decide(self._state, event)
        self._carry_out(actions)

    def _carry_out(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Spawn():
                    self._spawn(action)
                case SaveEvery():
                    self._save_every = action.steps
                    self._plan_save()
                case Kill():
                    self._work()
                    self._dead = True
                    self._lose(_KILLED_AFTER_S, "hang")
                case GiveUp():
                    self._ended = "gave up"
                case EndWithError():
                    self._ended = "error"
                case Finish():
                    self._ended = "finished"
                case Stop():
                    self._ended = "stopped"
                case _:
                    pass  # messages and stacks change nothing here

    def _spawn(self, action: Spawn) -> None:
        self._spawns += 1
        self._in_vain += 1
        self._save_every = action.save_every
        self._due["spawn"] = self._now + action.delay_s
        if self._in_vain > self._fleet.max_restarts + 2:
            self._ended = "time"
            self._stuck = f"{self._in_vain} starts without a newer checkpoint, and no end"

    def _reach_limit(self) -> None:
        self._work()
        self._ended = "time"
        if self._goal < _NEVER:
            self._stuck = "it did not end within its time limit"


_HANDLERS: Final[dict[str, Callable[[_Simulation], None]]] = {
    "limit": _Simulation._reach_limit,
    "death": _Simulation._death,
    "part": _Simulation._part,
    "heal": _Simulation._heal,
    "slow": _Simulation._slow_down,
    "calm": _Simulation._calm,
    "spawn": _Simulation._try_to_start,
    "patience": _Simulation._lose_patience,
    "ready": _Simulation._get_ready,
    "beat": _Simulation._beat,
    "goal": _Simulation._reach_goal,
    "save": _Simulation._save,
    "saved": _Simulation._saved,
    "lost": _Simulation._lost,
    "wake": _Simulation._wake,
}


def harsh(seed: int) -> tuple[Fleet, float]:
    """A short run that is hit often, and its steps: from one death in many runs to several in each
    start. For livelocks."""
    draw = random.Random(f"harsh {seed}")

    def between(least: float, most: float) -> float:
        return math.exp(draw.uniform(math.log(least), math.log(most)))

    step_s, steps = between(0.01, 20), between(50, 2000)
    restart_s, timeout_s = between(1, 60), between(1, 120)
    nodes = draw.choice([1, 2, 3, 5, 8, 64])
    # Mean time between deaths, in units of what a death costs.
    mtbf = (restart_s + timeout_s) * between(0.3, 300)
    fleet = Fleet(
        nodes=nodes,
        step_s=step_s,
        deaths_per_node_day=DAY_S / mtbf / nodes,
        silent=draw.random(),
        absent_s=draw.choice([0.0, between(1, 3000)]),
        partitions_per_day=draw.choice([0.0, DAY_S / mtbf]),
        partition_s=between(1, 300),
        stragglers_per_day=draw.choice([0.0, DAY_S / mtbf]),
        straggler_s=between(1, 600),
        slowdown=between(1.1, 100),
        exchange_timeout_s=timeout_s,
        restart_s=restart_s,
        every_s=between(0.5, 120),
        save_s=between(0.05, 5),
        max_restarts=draw.choice([0, 1, 5]),
        beat_s=max(step_s, steps * step_s / 200),
    )
    return fleet, float(int(steps))
