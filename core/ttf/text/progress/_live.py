"""A live line at the bottom of a terminal with past events above it, optionally in colour."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ttf.text import numbers as _text
from ttf.text.progress.ending import last_lines, last_notes
from ttf.text.progress.reporter import TRAIN, Shown
from ttf.text.terminal import Part, line_of, painted, visible, wants_unicode, wrapped

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord

DRAW_EVERY_S = 0.2
CLEAR = "\r\x1b[K"
LONGEST_BAR = 24
SHORTEST_BAR = 6
LABEL = 26
EVALUATED = 10
NOTE = len("  note ")


def _columns(stream: TextIO) -> int:
    # Of the terminal that `stream` writes to: in a trainer, standard output is no terminal.
    with contextlib.suppress(OSError, ValueError):  # no terminal, or closed
        columns = os.get_terminal_size(stream.fileno()).columns
        if columns > 0:
            return columns
    return shutil.get_terminal_size().columns


class ConsoleReporter(Shown):
    """For terminals. Hand-written: a screen layout library takes longer than a short training
    step."""

    def __init__(
        self,
        stream: TextIO,
        *,
        colour: bool = True,
        summary: bool = True,
        clock: Callable[[], float] = time.monotonic,
        width: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(stream, summary, clock)
        self._colour = colour
        self._width = width or (lambda: _columns(stream))
        self._next_draw = 0.0
        self._drawn = False
        self._bar_room = LONGEST_BAR
        self._full, self._rest = ("\u2501", "\u2500") if wants_unicode(stream) else ("=", "-")

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        self._progress.resumed(step, initial)
        self._say_line(f"resumed at step {step:,}", "")

    def stage(self, name: str, total: int | None) -> None:
        self._end_stage()
        self._progress.begin(name, total)
        self._bar_room = LONGEST_BAR
        self._draw()

    def advance(self, done: int, total: int) -> None:
        self._progress.done, self._progress.total = done, total
        if self._progress.clock() >= self._next_draw:
            self._draw()

    def step(self, record: StepRecord, total_steps: int) -> None:
        if self._progress.stage != TRAIN:
            self.stage(TRAIN, total_steps)
        self._progress.stepped(record, total_steps)
        if self._progress.clock() >= self._next_draw:
            self._draw()

    def note(self, text: str) -> None:
        # Folded, not cut: paths often differ only at the end.
        room = max(20, self._width() - 1 - NOTE)
        first, *more = wrapped(visible(text), room, fold=True) or [""]
        self._clear()
        self._write("  ", Part("note", "bold yellow"), f" {first}\n")
        for line in more:
            self._write(f"{'':{NOTE}}{line}\n")
        self._out.flush()
        if self._progress.stage:
            self._draw()

    def evaluated(self, record: EvalRecord) -> None:
        # One line; the whole table is for the end.
        if self._progress.stage.startswith("eval"):
            self._clear()
            self._progress.stage = ""
        label = "before" if record.step == 0 else f"step {record.step:,}"
        room = self._width() - 1 - len(f"  {label:<{EVALUATED}}  ")
        self._say_line(f"{label:<{EVALUATED}}", "  " + self._progress.headline(record, room))

    def stopping(self, why: str) -> None:
        self._end_stage()
        self._say_line(f"stopping ({why})", ": saving a checkpoint ...")

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._end_stage()
        for note in last_notes(summary):
            self.note(note)
        for label, value in last_lines(summary) if self._show_summary else []:
            self._say_line(f"{label:<{EVALUATED}}", f"  {value}")

    def close(self) -> None:
        self._clear()
        self._out.flush()

    # --- the live line -----------------------------------------------------------------------

    def _draw(self) -> None:
        self._next_draw = self._progress.clock() + DRAW_EVERY_S
        self._out.write(CLEAR)
        self._write(*self._line(self._width()))
        self._out.flush()
        self._drawn = True

    def _line(self, width: int) -> list[str | Part]:
        """At most `width - 1` columns: a full line would make some terminals scroll."""
        room = width - 1
        label, counter = f"  {visible(self._progress.stage)}", f" {self._progress.counter()}"
        used = len(label) + len(counter)
        if used > room:
            return [(label + counter)[:room]]
        bar_room = 1 + SHORTEST_BAR if self._progress.total else 0
        tail = ""
        for part in self._progress.parts():
            if used + bar_room + len(tail) + 2 + len(part) > room:
                break
            tail += "  " + part
        bar = self._bar(room - used - len(tail) - 1)
        return [Part(label, "bold"), *bar, counter, Part(tail, "dim")]

    def _bar(self, room: int) -> list[str | Part]:
        # As wide as the figures leave room; within a stage it only shrinks, to avoid jumping.
        self._bar_room = min(self._bar_room, room)
        width = self._bar_room
        total = self._progress.total
        if not total or width < SHORTEST_BAR:
            return []
        filled = min(width, int(width * self._progress.done / total))
        done, rest = self._full * filled, self._rest * (width - filled)
        return [" ", Part(done, "cyan"), Part(rest, "dim")]

    def _write(self, *pieces: str | Part) -> None:
        self._out.write(painted(line_of(*pieces), colour=self._colour))

    def _clear(self) -> None:
        if self._drawn:
            self._out.write(CLEAR)
            self._drawn = False

    def _end_stage(self) -> None:
        if not self._progress.stage:
            return
        took = _text.duration(self._progress.seconds())
        done = self._progress.done
        unit = " steps" if self._progress.stage == TRAIN else ""
        count = f"  {done:,}{unit}" if done else ""
        self._clear()
        room = self._width() - 1
        label, tail = f"  {visible(self._progress.stage)}", f"{took:>8}{count}"
        wide = min(LABEL + 2, room - 1 - len(tail))
        if wide < len(label):
            tail = took
        label = label[: max(0, room - 1 - len(tail))].ljust(wide)
        self._write(Part(label, "bold"), " ", Part(tail, "dim"), "\n")
        self._progress.stage = ""

    def _say_line(self, strong: str, rest: str) -> None:
        self._clear()
        self._write("  ", Part(strong, "bold"), f"{rest}\n")
        self._out.flush()
        if self._progress.stage:
            self._draw()
