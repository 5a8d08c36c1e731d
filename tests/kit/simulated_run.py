"""A run of many nodes as a simulation: its attempts, its checkpoints, and its supervisor, whose every
decision is that of `ttf.supervise.decide` and of `ttf.supervise.nodes.gathering`.

The time of the next event of each kind is in `_due`.
"""

from __future__ import annotations

import math
import random
from typing import Final

from tests.kit.simulated_fleet import Fleet
from tests.kit.simulated_gathering import Nodes

from ttf.supervise.decide import decide, initial
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

NEVER: Final = math.inf
_KILLED_AFTER_S: Final = 0.1
_NAMES: Final = (
    "limit", "death", "part", "heal", "slow", "calm", "spawn", "back", "reboot", "patience", "ready",
    "beat", "goal", "save", "saved", "lost", "wake",
)  # fmt: skip


class Run:
    """The attempts of a run and its supervisor; `simulated_nodes` sends what happens to them."""

    def __init__(self, fleet: Fleet, seed: int, steps: float, until_s: float) -> None:
        self._due: dict[str, float] = dict.fromkeys(_NAMES, NEVER)
        self._due["limit"] = until_s
        self._fleet = fleet
        self._draw = random.Random(seed)
        self._goal = steps
        self._now = 0.0
        self._settings = Settings(max_restarts=fleet.max_restarts)
        # 'waiting' for all nodes, then 'starting', 'training'; 'down': there is no node 0.
        self._mode = "waiting"
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
        self._ended = ""
        self._stuck = ""
        self._in_vain = 0  # starts since the newest checkpoint
        self._progress_at = 0.0
        self._deaths = self._spawns = self._deciders_lost = 0
        self._crashed: int | None = None  # the node whose process died first
        self._nodes = Nodes(fleet.nodes, fleet.join_s, fleet.patience_s, 0.0, self._draw)
        self._state, actions = initial(0.0, settings=self._settings)
        self._carry_out(actions)

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
        """Node 0 has waited as long as the decision says. All nodes must be ready."""
        self._begin_if(self._nodes.ready(self._now))
        if self._mode == "waiting":
            # Not a rounding error before it.
            self._due["patience"] = max(self._now, self._nodes.patience_ends) + 1e-3

    def _begin_if(self, all_ready: bool) -> None:
        if not all_ready:
            return
        self._due["patience"] = NEVER
        self._mode, self._dead, self._began, self._crashed = "starting", False, self._now, None
        self._tell(Started(now=self._now))
        flat = {"checkpoint.every_s": self._fleet.every_s, "checkpoint.every_steps": None}
        self._tell(Configured(now=self._now, settings=self._settings, flat=flat))
        self._due["ready"] = self._now + self._fleet.restart_s

    def _lose_patience(self) -> None:
        if self._nodes.is_missed(self._now):
            self._ended = "lost patience"
        else:
            self._stuck = "node 0 waits for nobody, and nothing begins"
            self._ended = "time"

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
            self._conclude(well=True)
            self._tell(Ended(now=self._now, exit_code=0))

    def _conclude(self, *, well: bool = False) -> None:
        if not self._nodes.attempt_ends(self._now, crashed=self._crashed, well=well):
            self._ended, self._stuck = "time", "an attempt is over on all nodes but for node 0"

    def _plan_save(self) -> None:
        every = self._save_every * self._step_s if self._save_every else self._fleet.every_s
        self._due["save"] = max(self._now, self._since) + max(every, self._step_s)

    def _save(self) -> None:
        self._work()
        if not self._trains:
            return
        if self._due["saved"] != NEVER:  # the one before is still being written
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
        if self._due["save"] == NEVER:
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
        self._conclude()
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
        if not self._ended:
            self._nodes.welcome(self._now)
            self._begin_if(self._nodes.all_ready(self._now))

    def _end_attempt(self) -> None:
        self._mode, self._dead = "waiting", False
        self._done = float(max(self._kept, 0))
        for name in ("beat", "goal", "save", "saved", "ready", "lost", "spawn", "patience"):
            self._due[name] = NEVER

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
        if self._goal < NEVER:
            self._stuck = "it did not end within its time limit"
