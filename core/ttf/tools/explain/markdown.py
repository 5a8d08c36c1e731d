"""Markdown on a terminal: bold headings, wrapped text, marked code. Only what the pages use."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from ttf.text.terminal import Line, Part, joined, visible

_MOST_COLUMNS: Final = 96  # longer lines are hard to read
_BOLD, _CODE, _DIM = "bold", "cyan", "dim"
_ITEM: Final = re.compile(r"(- |\d+\. )")
_INLINE: Final = re.compile(r"(\*\*.+?\*\*|`[^`]+`|\*[^*\s][^*]*\*)", re.DOTALL)


def rendered(markdown: str, width: int) -> Line:
    room = max(20, min(width, _MOST_COLUMNS))
    # Escaped before it is wrapped: an escape takes columns.
    lines = [line for block in _blocks(visible(markdown)) for line in _shown(block, room)]
    while lines and not lines[-1]:
        lines.pop()
    return joined(lines)


def _blocks(markdown: str) -> Iterator[list[str]]:
    """Headings, fenced code, items and paragraphs, each with its lines; [] for an empty line."""
    block: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        fence = line.startswith("```")
        if fenced:
            block.append(line)
            if fence:
                yield block
                block, fenced = [], False
            continue
        starts = fence or line.startswith("#") or _ITEM.match(line) or not line
        if starts and block:
            yield block
            block = []
        if fence:
            block, fenced = [line], True
        elif not line or line.startswith("#"):
            yield [line] if line else []
        else:
            block.append(line)
    if block:
        yield block


def _shown(block: list[str], room: int) -> list[Line]:
    if not block:
        return [()]
    first = block[0]
    if first.startswith("```"):
        return [(Part(f"    {line}", _DIM),) for line in block[1:-1]]
    if first.startswith("#"):
        return [(Part(first.lstrip("# "), _BOLD),)]
    item = _ITEM.match(first)
    mark = item[0] if item else ""
    text = " ".join([first.removeprefix(mark), *(line.strip() for line in block[1:])])
    return _wrapped(text, room, mark)


def _wrapped(text: str, room: int, mark: str) -> list[Line]:
    # Marks of bold and code take no columns: they are removed before wrapping and painted after it,
    # also if a style continues on the next line.
    styles = [(piece, _style(piece)) for piece in _INLINE.split(text) if piece]
    pieces = [(_bare(piece, style), style) for piece, style in styles]
    lines = textwrap.wrap(
        "".join(piece for piece, _ in pieces),
        room,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
    )
    return _styled(lines, pieces, mark)


def _styled(lines: list[str], pieces: list[tuple[str, str]], mark: str) -> list[Line]:
    # Wrapping changes only spaces: the other characters have the same order in both.
    styles = [style for piece, style in pieces for c in piece if not c.isspace()]
    found: list[Line] = []
    at = 0
    for line in lines:
        shown = [Part(line[: len(mark)])]
        for c in line[len(mark) :]:
            style = shown[-1].style if c.isspace() else styles[at]
            at += not c.isspace()
            if style == shown[-1].style:
                shown[-1] = Part(shown[-1].text + c, style)
            else:
                shown.append(Part(c, style))
        found.append(tuple(shown))
    return found


def _style(piece: str) -> str:
    if piece.startswith("**") and piece.endswith("**") and len(piece) > 4:
        return _BOLD
    if piece.startswith("`") and piece.endswith("`") and len(piece) > 2:
        return _CODE
    return _DIM if _INLINE.fullmatch(piece) else ""


def _bare(piece: str, style: str) -> str:
    if style == _BOLD:
        return piece[2:-2].replace("`", "")
    return piece[1:-1] if style else piece
