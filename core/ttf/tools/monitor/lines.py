"""One line per interval for a pipe, a file or a log, with columns that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ttf.machine.memory.tree import TreeMemory
from ttf.text.numbers import TIME, moment
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


# Name, width and content; '-' if unknown. No cell contains a space. A line has about 100 columns.
Column = tuple[str, int, Cell]
_TIME: Final[Column] = ("time", 8, lambda v: moment(v.time, TIME))
_STATUS: Final[Column] = ("status", 8, lambda v: v.status)
_FULL: Final[Column] = ("full_in_s", 9, _of_limit(lambda limit: limit.seconds_left))
_ANON: Final[Column] = ("anon_MB", 8, _megabytes(lambda memory: memory.anon))
_OF_MACHINE: Final = "physical memory"  # How the source of the machine's own limit begins.


def columns_of(first: View) -> tuple[Column, ...]:
    """The columns of all lines, from the first view: a run has others than a process of another
    program."""
    # The use of the machine is that of all processes; of any other limit, what counts against it.
    whole = first.limit is not None and first.limit.source.startswith(_OF_MACHINE)
    name = "machine_%" if whole else "limit_%"
    limit: Column = (name, 9, _of_limit(lambda limit: 100 * limit.share))
    if first.run is None:
        return (
            *(_TIME, _STATUS),
            ("processes", 9, lambda v: str(len(v.processes))),
            ("threads", 7, lambda v: str(v.threads)),
            ("cpu_%", 6, lambda v: _number(0, v.cpu_percent)),
            _ANON,
            ("shared_MB", 9, _megabytes(lambda memory: memory.shared)),
            ("file_MB", 9, _megabytes(lambda memory: memory.file)),
            *(limit, _FULL),
        )
    return (
        *(_TIME, _STATUS),
        ("phase", 10, lambda v: (None if v.run is None else v.run.phase) or "-"),
        ("step", 7, _of_run(0, lambda run: run.step)),
        ("of", 7, _of_run(0, lambda run: run.total_steps)),
        ("samples/s", 9, _of_run(1, lambda run: run.samples_per_s)),
        ("loss", 7, _of_run(4, lambda run: run.loss)),
        *(_ANON, limit, _FULL),
        ("incidents", 9, _of_run(0, lambda run: len(run.incidents))),
    )


def heading(columns: Sequence[Column]) -> str:
    return " ".join(f"{name:>{width}}" for name, width, _ in columns)


def line(view: View, columns: Sequence[Column]) -> str:
    return " ".join(f"{cell(view):>{width}}" for _, width, cell in columns)
