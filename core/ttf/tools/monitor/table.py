"""The processes of a view as a table, with fewer columns if there is less room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ttf.text.numbers import size
from ttf.text.terminal import Line, Part
from ttf.tools.monitor.cells import cut, left, right
from ttf.tools.monitor.processes import Process
from ttf.tools.monitor.view import View

_ROLE: Final = 16
_STATES: Final = {"stopped": "yellow", "zombie": "yellow", "disk wait": "yellow"}


@dataclass(frozen=True)
class Column:
    name: str
    width: int
    cell: Callable[[Process], str]
    total: Callable[[View], str]


def _bytes(count: int | None) -> str:
    return "?" if count is None else size(count)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


_BY_WORTH: Final = (
    Column("anon", 8, lambda p: _bytes(p.anon), lambda v: _bytes(v.memory and v.memory.anon)),
    Column("cpu", 5, lambda p: _percent(p.cpu_percent), lambda v: _percent(v.cpu_percent)),
    Column("pid", 8, lambda p: str(p.pid), lambda _: ""),
    Column("shared", 8, lambda p: _bytes(p.shared), lambda v: _bytes(v.memory and v.memory.shared)),
    Column("file", 8, lambda p: _bytes(p.file), lambda v: _bytes(v.memory and v.memory.file)),
    Column("thr", 4, lambda p: str(p.threads), lambda v: str(v.threads)),
)
_ORDER: Final = ("pid", "anon", "shared", "file", "cpu", "thr")
_STATE: Final = 11


def process_lines(view: View, width: int) -> list[Line]:
    """A heading, a line for each process (the largest first), and the sum; [] without processes."""
    if not view.processes:
        return []
    columns, with_state = _chosen(width)
    head = left("process", _ROLE) + "".join(right(c.name, c.width + 1) for c in columns)
    lines: list[Line] = [(Part(head + ("  state" if with_state else ""), "dim"),)]
    for process in sorted(view.processes, key=_held, reverse=True):
        text = left(cut(process.role, _ROLE), _ROLE)
        text += "".join(right(c.cell(process), c.width + 1) for c in columns)
        state = Part(f"  {process.state}", _STATES.get(process.state, "dim"))
        lines.append((Part(text), state) if with_state else (Part(text),))
    if len(view.processes) > 1:
        text = left(f"all {len(view.processes)}", _ROLE)
        text += "".join(right(c.total(view), c.width + 1) for c in columns)
        lines.append((Part(text, "bold"),))
    return lines


def _held(process: Process) -> int:
    return (process.anon or 0) + (process.shared or 0)


def _chosen(width: int) -> tuple[list[Column], bool]:
    room, chosen = width - _ROLE, []
    for column in _BY_WORTH:
        if column.width + 1 > room:
            break
        room -= column.width + 1
        chosen.append(column)
    chosen.sort(key=lambda column: _ORDER.index(column.name))
    return chosen, room >= _STATE
