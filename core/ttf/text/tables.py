"""Tables of plain text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from ttf.text.terminal import is_terminal, one_line, wrapped

_NARROWEST: Final = 12  # columns for a cell that is wrapped


def table(
    rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, width: int | None = None
) -> str:
    """Left-aligned columns, two spaces apart. With `width`, the last column is wrapped to it."""
    every = [header, *rows] if header else rows
    lines = [[one_line(cell) for cell in row] for row in every]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    if width is not None:
        room = max(_NARROWEST, width - sum(used + 2 for used in widths[:-1]))
        lines = [part for line in lines for part in _wrapped_last(line, room)]
        widths[-1] = min(widths[-1], room)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def fitting(
    rows: Sequence[Sequence[str]], header: Sequence[str], width: int | None, less: Sequence[str]
) -> str:
    """`table`, without the columns `less`, the first of them first, where it is wider than `width`."""
    head, body = list(header), [list(row) for row in rows]
    shown = table(body, head)
    for name in less if width is not None else ():
        if max(map(len, shown.splitlines())) <= (width or 0):
            break
        at = head.index(name)
        head, body = _without(head, at), [_without(row, at) for row in body]
        shown = table(body, head)
    return shown


def _without(cells: list[str], at: int) -> list[str]:
    return cells[:at] + cells[at + 1 :]


def screen_width() -> int | None:
    """Of standard output, less one: a full line makes some terminals scroll. None in a pipe."""
    return shutil.get_terminal_size().columns - 1 if is_terminal(sys.stdout) else None


def _wrapped_last(line: list[str], room: int) -> list[list[str]]:
    # Words are not cut, so that paths and numbers can be copied.
    first, *more = wrapped(line[-1], room) or [""]
    blank = [""] * (len(line) - 1)
    return [[*line[:-1], first], *([*blank, text] for text in more)]
