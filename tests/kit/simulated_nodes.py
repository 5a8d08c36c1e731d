"""A run on many nodes as a discrete-event simulation: nodes die, hosts stay away, networks part, one
rank is slow.

A run ends finished, given up, or at its time limit; `stuck` says why no progress can follow any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tests.kit.simulated_fleet import DAY_S, Fleet, Outcome
from tests.kit.simulated_run import NEVER, Run

from ttf.supervise.decide import initial, wake_at


def simulate(fleet: Fleet, seed: int, *, steps: float = math.inf, until_s: float) -> Outcome:
    return _Simulation(fleet, seed, steps, until_s).run()


class _Simulation(Run):
    def __init__(self, fleet: Fleet, seed: int, steps: float, until_s: float) -> None:
        super().__init__(fleet, seed, steps, until_s)
        self._plan_fates()

    def run(self) -> Outcome:
        while not self._ended:
            wakes = None if self._mode == "down" else wake_at(self._state)
            self._due["wake"] = NEVER if wakes is None else max(wakes, self._now)
            name = min(self._due, key=self._due.__getitem__)
            if self._due[name] == NEVER:
                self._ended, self._stuck = "time", "nothing can happen any more"
                break
            self._now = self._due[name]
            if name != "wake":
                self._due[name] = NEVER
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
            self._now + self._draw.expovariate(per_day / DAY_S) if per_day > 0 else NEVER
        )

    def _lasting(self, mean_s: float) -> float:
        return self._draw.expovariate(1 / mean_s) if mean_s > 0 else 0.0

    def _death(self) -> None:
        fleet = self._fleet
        self._deaths += 1
        self._next("death", fleet.nodes * fleet.deaths_per_node_day)
        silent = self._draw.random() < fleet.silent
        node = self._draw.randrange(fleet.nodes)
        if node in self._nodes.away or (node == 0 and self._mode == "down"):
            return
        if node == 0 and silent:
            self._lose_decider()
            return
        if silent:
            self._nodes.away[node] = self._now + self._lasting(fleet.absent_s)
            self._come_back()
        if self._mode == "waiting" and silent:
            self._nodes.lost_between_attempts(self._now, [node])
            self._begin_if(self._nodes.welcome(self._now))
        if self._mode in ("waiting", "down"):
            return
        self._work()
        if not self._dead and not silent:
            self._crashed = node
        self._dead = True
        after = fleet.exchange_timeout_s if silent else fleet.notice_s
        self._lose(after, "network-partition" if silent else "segfault")

    def _come_back(self) -> None:
        """Plans when the next host that is away returns."""
        later = [at for at in self._nodes.away.values() if at > self._now]
        self._due["back"] = min(later, default=NEVER)

    def _returned(self) -> None:
        # Node 0 still waits for the one that died: who comes in its place is refused until then.
        if self._mode == "waiting":
            self._begin_if(self._nodes.welcome(self._now))
        self._come_back()

    def _lose_decider(self) -> None:
        """The host of node 0: what its supervisor knew is gone but for its journal. A person or a
        service starts it again, and must have the patience: the restarts in vain are forgotten."""
        self._deciders_lost += 1
        if self._now - self._progress_at > self._fleet.patience_s:
            self._ended = "lost patience"
            return
        self._work()
        self._end_attempt()
        self._in_vain, self._mode = 0, "down"
        self._due["reboot"] = self._now + self._lasting(self._fleet.absent_s)

    def _reboot(self) -> None:
        self._mode = "waiting"
        self._nodes.begin(self._now)
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
        others = range(1, self._fleet.nodes)
        self._nodes.cut = set(self._draw.sample(others, self._draw.randint(0, len(others))))
        self._due["heal"] = heals
        if self._mode == "waiting":
            self._nodes.lost_between_attempts(self._now, self._nodes.cut)
        if self._mode == "training":
            self._lose(self._fleet.exchange_timeout_s, "network-partition")
        elif self._mode == "starting":
            self._left_to_start = self._due["ready"] - self._now
            self._due["ready"] = NEVER
            self._lose(self._began + self._fleet.join_s - self._now, "rendezvous-failed")

    def _heal(self) -> None:
        self._parted = False
        self._nodes.cut = set()
        if self._mode == "waiting":
            self._begin_if(self._nodes.welcome(self._now))
        elif not self._dead and self._mode != "down":
            self._due["lost"] = NEVER
            self._since = self._now
            if self._mode == "starting":
                self._due["ready"] = self._now + self._left_to_start
            else:
                if self._due["save"] == NEVER:
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
                self._due["lost"] = NEVER
            self._go_on()


_HANDLERS: Final[dict[str, Callable[[_Simulation], None]]] = {
    "limit": _Simulation._reach_limit,
    "death": _Simulation._death,
    "part": _Simulation._part,
    "heal": _Simulation._heal,
    "slow": _Simulation._slow_down,
    "calm": _Simulation._calm,
    "spawn": _Simulation._try_to_start,
    "back": _Simulation._returned,
    "reboot": _Simulation._reboot,
    "patience": _Simulation._lose_patience,
    "ready": _Simulation._get_ready,
    "beat": _Simulation._beat,
    "goal": _Simulation._reach_goal,
    "save": _Simulation._save,
    "saved": _Simulation._saved,
    "lost": _Simulation._lost,
    "wake": _Simulation._wake,
}
