"""Charts as inline SVG: axes, ticks, marks, a legend; colours come from the page's style."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

MOST_POINTS = 400
WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 38
_LETTER = 6.4
"""Width of a letter of a label."""
_LABEL_ROWS = 3
_MOST_LABELS = 12
"""With more marks than that, their lines tell enough."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """`faint` lines lie behind the others; `dots` marks the points, for few of them."""

    name: str
    points: Sequence[Point]
    colour: int
    faint: bool = False
    dots: bool = False


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment on the horizontal axis that leads to a place of the page."""

    at: float
    label: str
    title: str
    target: str


def chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_text: Callable[[float], str],
    x_text: Callable[[float], str],
    from_zero: bool = False,
    whole: bool = False,
    marks: Sequence[Mark] = (),
    under: str = "",
) -> str:
    """A figure, or '' where there is nothing to draw; `whole`: nothing lies between two x;
    `under`: a sentence below it."""
    drawn = [s for s in series if s.points]
    if not drawn:
        return ""
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points]
    x_ticks = ticks(min(xs), max(xs), whole=whole)
    y_ticks = ticks(0.0 if from_zero else min(ys), max(ys))
    place = Place(
        x=(min(xs), max(xs)),
        y=(min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))),
    )
    axis = f'<text class="t" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">'
    parts = [
        *(y_tick(place, y, y_text(y)) for y in y_ticks),
        *(x_tick(place, x, x_text(x)) for x in x_ticks),
        *(_line(place, s) for s in sorted(drawn, key=lambda s: not s.faint)),
        drawn_marks(marks, place.x, HEIGHT - BOTTOM),
        f"{axis}{escape(x_label)}</text>",
    ]
    return figure(title, [(s.name, s.colour, s.faint) for s in drawn], "".join(parts), under=under)


def figure(
    title: str,
    legend: Sequence[tuple[str, int, bool]],
    body: str,
    *,
    height: int = HEIGHT,
    under: str = "",
) -> str:
    """A drawing with its title and legend: (name, colour, faint) each."""
    names = "".join(
        f'<span><i class="k{colour}{" f" if faint else ""}"></i>{escape(name)}</span>'
        for name, colour, faint in legend
    )
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{names}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{body}</svg>{f'<p>{escape(under)}</p>' if under else ''}</figure>"
    )


def drawn_marks(marks: Sequence[Mark], x: tuple[float, float], bottom: int) -> str:
    """A dashed line each; as many labels as there is room for, in up to three rows."""
    ends = [-math.inf] * _LABEL_ROWS
    out = []
    for mark in sorted(marks, key=lambda m: m.at):
        at = across(mark.at, x)
        width = _LETTER * len(mark.label) + 8
        left = min(at + 3, WIDTH - RIGHT - width)
        row = next((i for i, end in enumerate(ends) if end <= left), None)
        if len(marks) > _MOST_LABELS:
            row = None
        text = ""
        if row is not None:
            ends[row] = left + width
            text = f'<text class="t e" x="{left:.1f}" y="{TOP + 9 + 13 * row}">{escape(mark.label)}</text>'
        out.append(
            f'<a href="#{escape(mark.target)}"><title>{escape(mark.title)}</title>'
            f'<line class="e" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>{text}</a>'
        )
    many = ' class="y"' if len(marks) > _MOST_LABELS else ""
    return f"<g{many}>{''.join(out)}</g>"


def columns(
    title: str,
    parts: Sequence[Sequence[float]],
    names: Sequence[tuple[str, int]],
    *,
    edges: Sequence[float],
    x_label: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    under: str = "",
) -> str:
    """Stacked columns between `edges`; '' where there is nothing to draw."""
    top = max((sum(part) for part in parts), default=0.0)
    if not top > 0:
        return ""
    y_ticks = ticks(0.0, top)
    place = Place(x=(edges[0], edges[-1]), y=(0.0, y_ticks[-1]))
    body = [y_tick(place, y, y_text(y)) for y in y_ticks]
    for part, left, right in zip(parts, edges, edges[1:], strict=False):
        low = 0.0
        begin, end = place.across(left), place.across(right)
        for value, (_, colour) in zip(part, names, strict=True):
            if value > 0:
                y, height = place.up(low + value), place.up(low) - place.up(low + value)
                body.append(
                    f'<rect class="d{colour}" x="{begin + 0.5:.1f}" y="{y:.1f}" '
                    f'width="{max(end - begin - 1, 0.5):.1f}" height="{height:.1f}"/>'
                )
            low += value
    body += [x_tick(place, x, x_text(x)) for x in ticks(edges[0], edges[-1], whole=True)]
    body.append(
        f'<text class="t" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">'
        f"{escape(x_label)}</text>"
    )
    legend = [(name, colour, False) for name, colour in names]
    return figure(title, legend, "".join(body), under=under)


@dataclass(frozen=True, kw_only=True)
class Place:
    """From values to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        return across(value, self.x)

    def up(self, value: float) -> float:
        low, high = self.y
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def across(value: float, x: tuple[float, float]) -> float:
    """The pixel of a value on the horizontal axis; what lies outside stands at its end."""
    low, high = x
    share = (value - low) / (high - low) if high > low else 0.5
    return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


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


def highest(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points, of each group of neighbours the highest: no peak is lost.

    >>> highest([(0, 1.0), (1, 3.0), (2, 5.0), (3, 2.0)], 2)
    [(1, 3.0), (2, 5.0)]
    """
    if len(points) <= most:
        return list(points)
    bounds = [round(i * len(points) / most) for i in range(most + 1)]
    return [max(points[a:b], key=lambda p: p[1]) for a, b in itertools.pairwise(bounds)]


def smoothed(points: Sequence[Point], share: float = 0.8) -> list[Point]:
    """An average that forgets, without the bias of its first value."""
    out: list[Point] = []
    total = weight = 0.0
    for x, y in points:
        total, weight = share * total + y, share * weight + 1
        out.append((x, total / weight))
    return out


def _line(place: Place, series: Series) -> str:
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


def y_tick(place: Place, value: float, text: str) -> str:
    """A line across, its value on the left."""
    y = place.up(value)
    return (
        f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="t" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def x_tick(place: Place, value: float, text: str) -> str:
    """A value below the axis; '' outside of it."""
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
