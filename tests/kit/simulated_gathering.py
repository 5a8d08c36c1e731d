"""The nodes of a simulated run as node 0 sees them: events for `ttf.supervise.nodes.gathering`, which
decides when an attempt begins and when it is over."""

from __future__ import annotations

import random
from collections.abc import Iterable

from ttf.supervise.nodes.gathering import (
    Action,
    BecameReady,
    Came,
    Conclude,
    Event,
    Gathering,
    Missing,
    Reported,
    StartAttempt,
    Waited,
    WasLost,
    gather,
)


class Nodes:
    """`away`: hosts that died, with the time when they, or others in their place, are there again.
    `cut`: those that node 0 cannot reach."""

    def __init__(
        self, count: int, join_s: float, patience_s: float, now: float, draw: random.Random
    ) -> None:
        self.count = count
        self.away: dict[int, float] = {}
        self.cut: set[int] = set()
        self._times = join_s, patience_s
        self._draw = draw
        self._known: set[int] = set()
        self.begin(now)

    def begin(self, now: float) -> None:
        """Node 0 was started, with no memory of the others."""
        join_s, patience_s = self._times
        self._state = Gathering(nodes=self.count, since=now, patience_s=join_s, later_s=patience_s)
        self._known = set()
        self.welcome(now)

    @property
    def patience_ends(self) -> float:
        return self._state.since + self._state.patience_s

    def welcome(self, now: float) -> bool:
        """Those that can be reached and are not known come, and are ready; whether an attempt begins."""
        new = [
            node
            for node in range(self.count)
            if node not in self._known and node not in self.cut and self.away.get(node, 0.0) <= now
        ]
        started = False
        for node in new:
            self._known.add(node)
            self.away.pop(node, None)
            self._tell(Came(now=now, node=node, host=f"host{node}"))
            if node:
                started |= self._ready(now, node)
        return started

    def all_ready(self, now: float) -> bool:
        """After the end of an attempt, those that are there; node 0 later."""
        started = False
        for node in sorted(self._known):
            started |= node != 0 and self._ready(now, node)
        return started

    def ready(self, now: float) -> bool:
        """Node 0 has waited long enough; whether an attempt begins."""
        return self._ready(now, 0)

    def _ready(self, now: float, node: int) -> bool:
        found = self._tell(BecameReady(now=now, node=node, ranks=1, has_run=True, newest=0))
        return any(isinstance(action, StartAttempt) for action in found)

    def lost_between_attempts(self, now: float, nodes: Iterable[int]) -> None:
        for node in nodes:
            if node in self._known:
                self._known.discard(node)
                self._tell(WasLost(now=now, node=node, how="silent"))

    def attempt_ends(self, now: float, *, crashed: int | None = None, well: bool = False) -> bool:
        """Everybody tells its end or is silent, in any order; whether the attempt is concluded."""
        lost = [n for n in self._known if n in self.cut or n in self.away]
        events: list[Event] = [WasLost(now=now, node=node, how="silent") for node in lost]
        events += [
            Reported(now=now, node=node, well=well, late=not well and node != crashed)
            for node in self._known.difference(lost)
        ]
        self._draw.shuffle(events)
        if crashed is not None:
            events.sort(key=lambda event: getattr(event, "node", -1) != crashed)
        self._known.difference_update(lost)
        concluded = False
        for event in events:
            concluded |= any(isinstance(action, Conclude) for action in self._tell(event))
        return concluded

    def is_missed(self, now: float) -> bool:
        return any(isinstance(action, Missing) for action in self._tell(Waited(now=now)))

    def _tell(self, event: Event) -> tuple[Action, ...]:
        self._state, actions = gather(self._state, event)
        return actions
