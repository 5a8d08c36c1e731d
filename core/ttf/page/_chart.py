"""Line charts as inline SVG: axes, ticks, a legend; colours come from the page's style."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

MOST_POINTS = 400
WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 38

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """`faint` lines lie behind the others; `dots` marks the points, for few of them."""

    name: str
    points: Sequence[Point]
    colour: int
    faint: bool = False
    dots: bool = False


def chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_text: Callable[[float], str],
    x_text: Callable[[float], str],
    from_zero: bool = False,
    whole: bool = False,
) -> str:
    """A figure, or '' where there is nothing to draw; `whole`: nothing lies between two x."""
    drawn = [s for s in series if s.points]
    if not drawn:
        return ""
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points]
    x_ticks = ticks(min(xs), max(xs), whole=whole)
    y_ticks = ticks(0.0 if from_zero else min(ys), max(ys))
    place = _Place(
        x=(min(xs), max(xs)),
        y=(min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))),
    )
    axis = f'<text class="t" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">'
    parts = [
        *(_y_tick(place, y, y_text(y)) for y in y_ticks),
        *(_x_tick(place, x, x_text(x)) for x in x_ticks),
        *(_line(place, s) for s in sorted(drawn, key=lambda s: not s.faint)),
        f"{axis}{escape(x_label)}</text>",
    ]
    legend = "".join(
        f'<span><i class="k{s.colour}{" f" if s.faint else ""}"></i>{escape(s.name)}</span>'
        for s in drawn
    )
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg></figure>"
    )


@dataclass(frozen=True, kw_only=True)
class _Place:
    """From values to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        low, high = self.x
        share = (value - low) / (high - low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        low, high = self.y
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Round values that span low..high; integers where only they have a meaning.

    >>> ticks(0.0, 0.93), ticks(3, 3), ticks(0, 1120)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [3.0], [0.0, 500.0, 1000.0, 1500.0])
    >>> ticks(1, 2, whole=True), ticks(1, 10, whole=True)
    ([1.0, 2.0], [0.0, 5.0, 10.0])
    """
    if not high > low:
        return [float(low)]
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    if whole:
        power = max(1.0, power)
    factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(m * power for m in factors if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: means of equally many neighbours each.

    >>> thin([(0, 1.0), (1, 3.0), (2, 5.0), (3, 7.0)], 2)
    [(0.5, 2.0), (2.5, 6.0)]
    """
    if len(points) <= most:
        return list(points)
    bounds = [round(i * len(points) / most) for i in range(most + 1)]
    groups = [points[a:b] for a, b in itertools.pairwise(bounds)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def smoothed(points: Sequence[Point], share: float = 0.8) -> list[Point]:
    """An average that forgets, without the bias of its first value."""
    out: list[Point] = []
    total = weight = 0.0
    for x, y in points:
        total, weight = share * total + y, share * weight + 1
        out.append((x, total / weight))
    return out


def _line(place: _Place, series: Series) -> str:
    spots = [(f"{place.across(x):.1f}", f"{place.up(y):.1f}") for x, y in series.points]
    classes = f"c{series.colour}{' f' if series.faint else ''}"
    out = ""
    if len(spots) > 1:
        path = " ".join(f"{x},{y}" for x, y in spots)
        out = f'<polyline class="{classes}" points="{path}"/>'
    if series.dots or len(spots) == 1:
        out += "".join(
            f'<circle class="d{series.colour}" cx="{x}" cy="{y}" r="3"/>' for x, y in spots
        )
    return out


def _y_tick(place: _Place, value: float, text: str) -> str:
    y = place.up(value)
    return (
        f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="t" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _x_tick(place: _Place, value: float, text: str) -> str:
    low, high = place.x
    if not low <= value <= high:
        return ""
    x = place.across(value)
    anchor = "start" if x < LEFT + 10 else "end" if x > WIDTH - RIGHT - 20 else "middle"
    return (
        f'<line class="a" x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" '
        f'y2="{HEIGHT - BOTTOM + 4}"/>'
        f'<text class="t" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
