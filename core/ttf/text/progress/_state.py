"""What both console reporters know about the run: smoothed loss, speed, time left, the stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ttf.text import numbers as _text

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord

TRAIN = "train"
"""The stage that steps belong to; the first step after another stage begins it."""
RECALL = "recall@"
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
        self.metric = ""
        self.first_metrics: Mapping[str, float] | None = None
        self.steps_here = 0
        self._last: StepRecord | None = None
        self._last_step = 0
        self._weight = 0.0

    def begin(self, stage: str, total: int | None) -> None:
        """Training goes on where it was; everything else begins at nothing."""
        training = stage == TRAIN
        self.stage, self.total = stage, total
        self.done = self._last_step if training else 0
        self.record = self._last if training else None
        self.steps_here = 0
        self.stage_began = self.clock()

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        self._last_step = step
        self.first_metrics = dict(initial) or None

    def seconds(self) -> float:
        return self.clock() - self.stage_began

    def stepped(self, record: StepRecord, total_steps: int) -> None:
        """Averages with less and less weight on the past while there is little of it."""
        self.record, self.done, self.total = record, record.step, total_steps
        self._last, self._last_step = record, record.step
        self.steps_here += 1
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
        if self.done == 0 or self.stage == TRAIN:
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
        elif self.stage == TRAIN:
            found.append("first step ...")
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

    def all_metrics(self, record: EvalRecord) -> list[str]:
        """Every metric, the chosen one first, each beside its value before training."""
        before = self._before(record)
        names = sorted(record.metrics, key=lambda name: name != self._chosen(record))
        return [_moved(name, before.get(name), record.metrics[name]) for name in names]

    def headline(self, record: EvalRecord, room: int) -> str:
        """The chosen metric and the other recalls; with less detail, then less, where there is
        less room."""
        before, chosen = self._before(record), self._chosen(record)
        others = [n for n in record.metrics if n.startswith(RECALL) and n != chosen]
        family = RECALL if chosen.startswith(RECALL) else ""
        shown: list[tuple[str, str]] = []
        for name in others:
            short = name.removeprefix("recall") if family else name
            family = RECALL
            shown.append((name, short))
        first = _moved(chosen, before.get(chosen), record.metrics[chosen])
        full = [_moved(short, before.get(n), record.metrics[n]) for n, short in shown]
        now = [_moved(short, None, record.metrics[n]) for n, short in shown]
        text = "  ".join([first, *full])
        if len(text) <= room:
            return text
        while now and len("  ".join([first, *now])) > room:
            now.pop()
        return "  ".join([first, *now])[:room]

    def _before(self, record: EvalRecord) -> Mapping[str, float]:
        """Metrics to compare with; the first evaluation has none."""
        if self.first_metrics is None:
            self.first_metrics = dict(record.metrics)
            return {}
        return self.first_metrics

    def _chosen(self, record: EvalRecord) -> str:
        return self.metric if self.metric in record.metrics else next(iter(record.metrics))


def _moved(label: str, before: float | None, now: float) -> str:
    shown = _text.metric(label, now)
    return (
        f"{label} {shown}"
        if before is None
        else f"{label} {_text.metric(label, before)} -> {shown}"
    )
