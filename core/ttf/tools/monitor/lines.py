"""One line per interval for a pipe, a file or a log, with fixed columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ttf.machine.memory.tree import TreeMemory
from ttf.text.times import TIME, moment
from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.view import Run, View

Cell = Callable[[View], str]


def _of_run(digits: int, of: Callable[[Run], float | None]) -> Cell:
    return lambda view: _number(digits, None if view.run is None else of(view.run))


def _of_limit(of: Callable[[NearestLimit], float | None]) -> Cell:
    return lambda view: _number(0, None if view.limit is None else of(view.limit))


def _megabytes(of: Callable[[TreeMemory], int]) -> Cell:
    return lambda view: _number(1, None if view.memory is None else of(view.memory) / 1e6)


def _number(digits: int, value: float | None) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


# Name, width and content; '-' if unknown. No cell contains a space.
COLUMNS: Final[tuple[tuple[str, int, Cell], ...]] = (
    ("time", 8, lambda v: moment(v.time, TIME)),
    ("status", 8, lambda v: v.status),
    ("phase", 10, lambda v: (None if v.run is None else v.run.phase) or "-"),
    ("step", 9, _of_run(0, lambda run: run.step)),
    ("of", 9, _of_run(0, lambda run: run.total_steps)),
    ("samples/s", 10, _of_run(1, lambda run: run.samples_per_s)),
    ("loss", 9, _of_run(4, lambda run: run.loss)),
    ("anon_MB", 9, _megabytes(lambda memory: memory.anon)),
    ("shared_MB", 9, _megabytes(lambda memory: memory.shared)),
    ("file_MB", 9, _megabytes(lambda memory: memory.file)),
    ("processes", 9, lambda v: str(len(v.processes))),
    ("threads", 7, lambda v: str(v.threads)),
    ("cpu_%", 6, lambda v: _number(0, v.cpu_percent)),
    ("limit_%", 7, _of_limit(lambda limit: 100 * limit.share)),
    ("full_in_s", 9, _of_limit(lambda limit: limit.seconds_left)),
    ("silent_s", 8, _of_run(0, lambda run: run.silent_s)),
    ("restarts", 8, _of_run(0, lambda run: run.restarts)),
    ("incidents", 9, _of_run(0, lambda run: len(run.incidents))),
)


def heading() -> str:
    return " ".join(f"{name:>{width}}" for name, width, _ in COLUMNS)


def line(view: View) -> str:
    return " ".join(f"{cell(view):>{width}}" for _, width, cell in COLUMNS)
