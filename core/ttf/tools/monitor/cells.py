"""Text in columns: its width on a screen, cutting, colours, small curves."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ttf.text.terminal import Line, Part, one_line

_BARS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_PLAIN_BARS: Final = "_.:-=+*#"


@dataclass(frozen=True, kw_only=True)
class Paint:
    """What the terminal supports."""

    unicode: bool = False

    def curve(self, values: Sequence[float], width: int, least: float = 0.0) -> str:
        """At most `width` bars, each the highest value of its part. `least`: the smallest span of
        the curve, as a share of its highest value, so that noise stays flat."""
        if not values or width <= 0:
            return ""
        shown = list(_highest(values, width))
        high = max(shown)
        low = min(*shown, high - least * abs(high)) if least else min(shown)
        bars = _BARS if self.unicode else _PLAIN_BARS
        if high <= low:
            return bars[0] * len(shown)
        top = len(bars) - 1
        return "".join(bars[round(top * (value - low) / (high - low))] for value in shown)


def _highest(values: Sequence[float], count: int) -> Iterable[float]:
    if len(values) <= count:
        return values
    edges = [len(values) * i // count for i in range(count + 1)]
    return [max(values[a:b]) for a, b in pairwise(edges)]


def columns(text: str) -> int:
    """
    >>> columns("abc"), columns("\u6a21\u578b")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The beginning that fits; '~' at the end marks a cut."""
    if columns(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "~" if width > 0 else ""


def left(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    return " " * (width - columns(text)) + text


def flow(items: Iterable[Line], width: int, *, indent: str = "  ") -> list[Line]:
    """Items in reading order, two spaces apart, wrapped to `width`."""
    lines: list[Line] = []
    now: Line = ()
    for item in items:
        used, more = line_columns(now), line_columns(item)
        if now and used + 2 + more > width:
            lines.append(now)
            now = (Part(indent), *item)
        else:
            now = (*now, Part("  "), *item) if now else item
    return [*lines, now] if now else lines


def fitted(line: Line, width: int) -> Line:
    """The beginning that fits, without spaces at the end."""
    room, found = width, []
    for part in line:
        text = cut(one_line(part.text), room)
        room -= columns(text)
        found.append(Part(text, part.style))
    while found and not (text := found[-1].text.rstrip(" ")):
        found.pop()
    return (*found[:-1], Part(text, found[-1].style)) if found else ()


def line_columns(line: Line) -> int:
    return sum(columns(part.text) for part in line)
