"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Left-aligned columns, two spaces apart."""
    lines = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
