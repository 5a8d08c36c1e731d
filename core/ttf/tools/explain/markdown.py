"""Markdown on a terminal: bold headings, wrapped text, marked code. Only what the pages use."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

_MOST_COLUMNS: Final = 96  # longer lines are hard to read
_BOLD, _CODE, _DIM, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[2m", "\x1b[0m"
_ITEM: Final = re.compile(r"(- |\d+\. )")
_INLINE: Final = re.compile(r"(\*\*.+?\*\*|`[^`]+`|\*[^*\s][^*]*\*)", re.DOTALL)


def rendered(markdown: str, width: int, *, colour: bool) -> str:
    room = max(20, min(width, _MOST_COLUMNS))
    lines: list[str] = []
    for block in _blocks(markdown):
        lines += _shown(block, room, colour)
    return "\n".join(lines).rstrip("\n") + "\n"


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


def _shown(block: list[str], room: int, colour: bool) -> list[str]:
    if not block:
        return [""]
    first = block[0]
    if first.startswith("```"):
        return [_paint(f"    {line}", _DIM, colour) for line in block[1:-1]]
    if first.startswith("#"):
        return [_paint(first.lstrip("# "), _BOLD, colour)]
    item = _ITEM.match(first)
    mark = item[0] if item else ""
    text = " ".join([first.removeprefix(mark), *(line.strip() for line in block[1:])])
    return _wrapped(text, room, mark, colour)


def _wrapped(text: str, room: int, mark: str, colour: bool) -> list[str]:
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
    return _painted(lines, pieces, mark) if colour else lines


def _painted(lines: list[str], pieces: list[tuple[str, str]], mark: str) -> list[str]:
    # Wrapping changes only spaces: the other characters have the same order in both.
    styles = [style for piece, style in pieces for c in piece if not c.isspace()]
    found, at = [], 0
    for line in lines:
        shown, before = [line[: len(mark)]], ""
        for c in line[len(mark) :]:
            style = before if c.isspace() else styles[at]
            at += not c.isspace()
            if style != before:
                shown.append((_PLAIN if before else "") + style)
            shown.append(c)
            before = style
        found.append("".join(shown) + (_PLAIN if before else ""))
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


def _paint(text: str, style: str, colour: bool) -> str:
    return f"{style}{text}{_PLAIN}" if colour else text
