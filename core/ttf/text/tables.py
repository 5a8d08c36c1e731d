"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence

from ttf.text.terminal import one_line


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Left-aligned columns, two spaces apart."""
    every = [header, *rows] if header else rows
    lines = [[one_line(cell) for cell in row] for row in every]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
