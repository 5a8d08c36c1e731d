"""A chart of dots: a dot for each repeat, a column for each arm; lines join the dots of a block."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ttf.tools.report.charts.axes import FLOOR, Place, count, ticks, y_axis
from ttf.tools.report.charts.figure import HEIGHT, Figure, Look, Point, line, text

# The most that dots move aside, as a share of the column's width, so that none hides another.
_SPREAD: Final = 0.34
_FEWEST_FOR_A_MEDIAN: Final = 3
_DOT: Final = 7.4  # pixels of a dot


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A repeat; a hollow dot is one that crashed."""

    value: float
    title: str = ""
    hollow: bool = False


def dot_chart(
    title: str, columns: Mapping[Look, Mapping[int, Dot]], *, alt: str, under: str
) -> Figure:
    found = [dot.value for dots in columns.values() for dot in dots.values()]
    if not found:
        return Figure(title=title)
    y_ticks = ticks(min(found), max(found))
    if len(y_ticks) == 1:  # all alike
        y_ticks = [y_ticks[0] - 1, y_ticks[0], y_ticks[0] + 1]
    place = Place(x=(-0.5, len(columns) - 0.5), y=(y_ticks[0], y_ticks[-1]))
    widest = _SPREAD * (place.across(1) - place.across(0) if len(columns) > 1 else 200)
    middles = [place.across(column) for column in range(len(columns))]
    spots = [
        _spots(place, middle, widest, dots)
        for middle, dots in zip(middles, columns.values(), strict=True)
    ]
    shapes = list(y_axis(place, y_ticks, count))
    for left, right in itertools.pairwise(spots):
        shapes += [line("p", *left[b], *right[b]) for b in left if b in right]
    for (arm, dots), middle, at in zip(columns.items(), middles, spots, strict=True):
        if len(dots) >= _FEWEST_FOR_A_MEDIAN:
            y = place.up(statistics.median(dot.value for dot in dots.values()))
            shapes.append(line("mid", middle - 34, y, middle + 34, y))
        shapes += [arm.dot(*at[b], dot.title, hollow=dot.hollow) for b, dot in dots.items()]
        shapes.append(text("t h", middle, FLOOR + 18, arm.letter))
        if not dots:
            shapes.append(text("t", middle, HEIGHT / 2, "none finished"))
    legend = dict.fromkeys(columns, False)
    return Figure(title=title, shapes=shapes, legend=legend, alt=alt, under=under)


def _spots(place: Place, middle: float, widest: float, dots: Mapping[int, Dot]) -> dict[int, Point]:
    """Positions of the dots. Dots that would overlap move left, right, further left, ..."""
    found: dict[int, Point] = {}
    last: dict[int, float] = {}  # of each place beside the middle, the height of its newest dot
    for block, dot in sorted(dots.items(), key=lambda item: item[1].value):
        y = place.up(dot.value)
        aside = 0
        for number in range(1, 1 + 2 * int(widest / _DOT)):
            # They come from the bottom up, so the newest is the nearest.
            if aside not in last or abs(y - last[aside]) >= _DOT - 0.1:
                break
            aside = (-1) ** number * -(-number // 2)
        last[aside] = y
        found[block] = (middle + aside * _DOT, y)
    return found
