"""Lines for a log file or a dumb terminal: no control codes, no colours."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ttf.text import numbers as _text
from ttf.text.progress._base import Reporter
from ttf.text.progress._state import TRAIN, Progress
from ttf.text.progress._stream import lasting
from ttf.text.progress.ending import last_lines, last_notes

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord

LINE_EVERY_S = 10.0


class PlainReporter(Reporter):
    """One line an event, and one every ten seconds while something goes on."""

    def __init__(
        self,
        stream: TextIO,
        *,
        summary: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = lasting(stream)
        self._progress = Progress(clock)
        self._show_summary = summary
        self._next_line = 0.0

    def watch_memory(self, held_bytes: Callable[[], int]) -> None:
        self._progress.held_bytes = held_bytes

    def chosen_by(self, metric: str) -> None:
        self._progress.metric = metric

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        self._progress.resumed(step, initial)
        self._say(f"resumed at step {step:,}")

    def stage(self, name: str, total: int | None) -> None:
        self._end_stage()
        self._progress.begin(name, total)
        self._wait()
        self._say(f"{name} ...")

    def advance(self, done: int, total: int) -> None:
        self._progress.done, self._progress.total = done, total
        self._maybe_line()

    def step(self, record: StepRecord, total_steps: int) -> None:
        if self._progress.stage != TRAIN:
            self.stage(TRAIN, total_steps)
        self._progress.stepped(record, total_steps)
        if self._progress.steps_here == 1:
            self._next_line = 0.0
        self._maybe_line()

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def evaluated(self, record: EvalRecord) -> None:
        if self._progress.stage.startswith("eval"):
            self._progress.stage = ""  # the line below says how long it took
        shown = self._progress.all_metrics(record)
        took = _text.duration(record.seconds)
        self._say(f"evaluated at step {record.step:,} ({took}): {', '.join(shown)}")

    def stopping(self, why: str) -> None:
        self._end_stage()
        self._say(f"stopping ({why}): saving a checkpoint ...")

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._end_stage()
        for note in last_notes(summary):
            self.note(note)
        if self._show_summary:
            for label, value in last_lines(summary):
                self._say(f"{label}: {value}")

    def close(self) -> None:
        self._out.flush()

    def _maybe_line(self) -> None:
        if self._progress.clock() < self._next_line:
            return
        self._wait()
        parts = [self._progress.counter(), *self._progress.parts()]
        self._say(f"{self._progress.stage} {'  '.join(p for p in parts if p)}".lstrip())

    def _wait(self) -> None:
        self._next_line = self._progress.clock() + LINE_EVERY_S

    def _end_stage(self) -> None:
        if self._progress.stage:
            took = _text.duration(self._progress.seconds())
            self._say(f"{self._progress.stage} took {took}")
        self._progress.stage = ""

    def _say(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
