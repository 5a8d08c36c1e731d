"""Which tickets a study still gives out: until it is whole, settled, or its time is used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from ttf.tools.ab.hosts.blocks import SPOILED, Blocks, Ticket
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell
from ttf.tools.ab.study import ABLimits, ABStudy, Reason
from ttf.tools.studies.carry_out import Records
from ttf.tools.studies.one_run import FinishedRun


@dataclass
class Giving:
    study: ABStudy
    limits: ABLimits
    settled: Callable[[ABStudy], bool]
    records: Records[Cell, Sample]
    at_once: int  # repeats that one holder runs at a time
    reason: Reason = "all"
    over: bool = False
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.blocks = Blocks.of(self.study.setup.cells, self.study.runs)

    @property
    def finished(self) -> bool:
        """Nothing is given out any more, and nobody holds a block."""
        left = len(self.study.done) < len(self.study.setup.cells)
        return not self.blocks.held and (self.over or not left)

    @property
    def budget_left_s(self) -> float | None:
        budget_s = self.limits.budget_s
        return None if budget_s is None else budget_s - (time.monotonic() - self.began)

    def tickets(
        self, holder: Hashable, host: str, most: int, own: Sequence[str] = ()
    ) -> list[Ticket]:
        """At most so many blocks for one holder, which has nothing to do; `own` as for
        `Blocks.next_for`."""
        self.blocks.idle(holder)
        given: list[Ticket] = []
        while len(given) < most and not self._is_over():
            ticket = self.blocks.next_for(holder, host, self.study.runs, own)
            if ticket is None:
                break
            self.study.void(ticket.spoiled, SPOILED)
            given.append(ticket)
        return given

    def _is_over(self) -> bool:
        study = self.study
        if not self.over and study.setup.sequential and self.settled(study):
            self.over, self.reason = True, "settled"
        left_s = self.budget_left_s
        if not self.over and left_s is not None and len(study.done) < len(study.setup.cells):
            expected_s = study.expected_s(len(study.setup.arms), self.at_once) or 0.0
            if left_s <= 0 or expected_s > left_s:
                self.over, self.reason = True, "budget"
        return self.over

    def record(self, finished: FinishedRun[Sample]) -> None:
        """Durable when this returns. Raises what ends the study."""
        self.records.take(finished, self.budget_left_s)
        self.blocks.ended(finished.run.block, finished.run.arm, self.study.runs)
