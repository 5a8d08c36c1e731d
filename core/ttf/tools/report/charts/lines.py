"""Line charts with bands, dots, notches, and marks that link to a place of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ttf.tools.report.charts.axes import END, FLOOR, TOP, Place, short, ticks, x_axis, y_axis
from ttf.tools.report.charts.figure import Figure, Look, Point, Shape, line, text

_LETTER = 6.4  # width of a letter of a label
_LABEL_ROWS = 3
_MOST_LABELS = 12  # with more marks there are no labels


@dataclass(frozen=True, kw_only=True)
class Line:
    """`faint` lines are behind the others; `dots` marks the points, if they are few."""

    look: Look
    points: Sequence[Point]
    faint: bool = False
    dots: bool = False
    band: Sequence[tuple[float, float, float]] = ()  # (x, low, high)
    notches: Sequence[Point] = ()


@dataclass(frozen=True, kw_only=True)
class Axes:
    """`x`, `y`: values that the axes always include; `whole`: x has only integers."""

    x_label: str
    y_text: Callable[[float], str] = short
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A position on the horizontal axis that links to a place of the page."""

    at: float
    label: str
    title: str
    target: str

    def link(self, shapes: Sequence[Shape]) -> Shape:
        return Shape("a", href=f"#{self.target}", title=self.title, inside=shapes)


def line_chart(
    title: str,
    lines: Sequence[Line],
    axes: Axes,
    *,
    marks: Sequence[Mark] = (),
    alt: str = "",
    under: str = "",
) -> Figure:
    drawn = sorted((one for one in lines if one.points), key=lambda one: not one.faint)
    if not drawn:
        return Figure(title=title)
    xs = [*axes.x, *(x for one in drawn for x, _ in one.points)]
    ys = [*axes.y, *(y for one in drawn for _, y in one.points)]
    ys += [y for one in drawn for _, *both in one.band for y in both]
    x_ticks = ticks(min(xs), max(xs), whole=axes.whole)
    y_ticks = ticks(min(ys), max(ys))
    place = Place(x=(min(xs), max(xs)), y=(y_ticks[0], y_ticks[-1]))
    shapes = [*y_axis(place, y_ticks, axes.y_text), *x_axis(place, x_ticks, axes.x_label)]
    shapes += [_band(place, one) for one in drawn if one.band]
    for one in drawn:
        shapes += _line(place, one)
    if marks:
        shapes.append(_marks(place, marks))
    legend: dict[Look, bool] = {}
    for one in lines:
        if one.points:
            legend.setdefault(one.look, one.faint)
    return Figure(title=title, shapes=shapes, legend=legend, alt=alt, under=under)


def _line(place: Place, one: Line) -> Iterator[Shape]:
    spots = [(place.across(x), place.up(y)) for x, y in one.points]
    colour = f"c{one.look.colour}"
    if len(spots) > 1:
        look, dash = (f"{colour} f", "") if one.faint else (colour, one.look.dash)
        yield Shape("polyline", look, points=_path(spots), stroke_dasharray=dash or None)
    if one.dots or len(spots) == 1:
        yield from (one.look.dot(x, y) for x, y in spots)
    for value, share in one.notches:
        x, y = place.across(value), place.up(share)
        yield line(f"{colour} n", x, y - 5, x, y + 5)


def _band(place: Place, one: Line) -> Shape:
    edge = [(x, high) for x, _, high in one.band] + [(x, low) for x, low, _ in one.band[::-1]]
    points = _path([(place.across(x), place.up(y)) for x, y in edge])
    return Shape("polygon", f"d{one.look.colour} band", points=points)


def _path(spots: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)


def _marks(place: Place, marks: Sequence[Mark]) -> Shape:
    # A dashed line each, with as many labels as fit in three rows.
    ends = [-math.inf] * (_LABEL_ROWS if len(marks) <= _MOST_LABELS else 0)
    links = []
    for mark in sorted(marks, key=lambda m: m.at):
        at = place.across(mark.at)
        inside = [line("e", at, TOP, at, FLOOR)]
        width = _LETTER * len(mark.label) + 8
        left = min(at + 3, END - width)
        row = next((i for i, end in enumerate(ends) if end <= left), None)
        if row is not None:
            ends[row] = left + width
            inside.append(text("t e", left, TOP + 9 + 13 * row, mark.label, None))
        links.append(mark.link(inside))
    return group(links)


def group(links: Sequence[Shape]) -> Shape:
    """Many links are drawn fainter: they would hide what is behind them."""
    return Shape("g", "y" if len(links) > _MOST_LABELS else None, inside=links)
