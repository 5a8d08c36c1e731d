"""What both console reporters know about the run: smoothed loss, speed, time left, the stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ttf.reporting import text as _text

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord

TRAIN = "train"
"""The stage that steps belong to; the first step after another stage begins it."""
SMOOTH = 0.95
"""Share of the old value kept at each step: the loss of about the last 20 steps."""


class Progress:
    """Fed by events, read by whoever draws; nothing here writes anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.stage_began = clock()
        self.done = 0
        self.total: int | None = None
        self.held_bytes: Callable[[], int] | None = None
        self.record: StepRecord | None = None
        self.loss = 0.0
        self.samples_per_s = 0.0
        self.seconds_per_step = 0.0
        self.first_eval: EvalRecord | None = None
        self._weight = 0.0

    def begin(self, stage: str, total: int | None) -> None:
        self.stage, self.total, self.done = stage, total, 0
        self.stage_began = self.clock()
        self.record = None

    def seconds(self) -> float:
        return self.clock() - self.stage_began

    def stepped(self, record: StepRecord, total_steps: int) -> None:
        """Averages with less and less weight on the past while there is little of it."""
        self.record, self.done, self.total = record, record.step, total_steps
        self._weight = SMOOTH * self._weight + 1
        share = 1 / self._weight
        self.loss += share * (record.loss - self.loss)
        self.samples_per_s += share * (record.samples_per_s - self.samples_per_s)
        self.seconds_per_step += share * (record.seconds - self.seconds_per_step)

    def seconds_left(self) -> float | None:
        """By the smoothed time of a step where there are steps, else by the stage's own pace."""
        if self.total is None or self.done >= self.total:
            return None
        if self.record is not None:
            return (self.total - self.done) * self.seconds_per_step
        if self.done == 0:
            return None
        return (self.total - self.done) * self.seconds() / self.done

    def parts(self) -> list[str]:
        """The figures after the counter, the most useful first; a narrow screen gets fewer."""
        found: list[str] = []
        if self.record is not None:
            found += [
                f"epoch {self.record.epoch}",
                f"loss {self.loss:.3f}",
                _text.rate(self.samples_per_s),
            ]
        left = self.seconds_left()
        if left is not None:
            found.append(f"ETA {_text.clock(left)}")
        if self.held_bytes is not None:
            found.append(f"mem {_text.size(self.held_bytes())}")
        if self.record is not None:
            found.append(f"lr {self.record.lr:.1e}")
        return found

    def counter(self) -> str:
        if self.total is None:
            return f"{self.done:,}" if self.done else ""
        width = len(f"{self.total:,}")
        return f"{self.done:>{width},}/{self.total:,}"

    def evaluation(self, record: EvalRecord) -> tuple[list[str], list[list[str]]]:
        """Head and rows of a table of this evaluation beside the first one seen."""
        before = self.first_eval
        if before is None:
            self.first_eval = before = record
        if before is record:
            head = ["metric", _when(record)]
            rows = [[name, _text.metric(name, v)] for name, v in record.metrics.items()]
            return head, rows
        head = ["metric", _when(before), _when(record), "change"]
        rows = []
        for name, now in record.metrics.items():
            old = before.metrics.get(name)
            shown = "" if old is None else _text.metric(name, old)
            moved = "" if old is None else _text.change(old, now)
            rows.append([name, shown, _text.metric(name, now), moved])
        return head, rows


def _when(record: EvalRecord) -> str:
    return "before" if record.step == 0 else f"step {record.step:,}"
