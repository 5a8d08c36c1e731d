"""The charts of a study: scores in order, time against score, and what mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ttf.tools.report.charts.axes import Place, ticks, x_axis
from ttf.tools.report.charts.figure import Figure, Look, Point, Shape, text
from ttf.tools.report.charts.lines import Axes, Line, line_chart
from ttf.tools.tune.trial import TuneTrial

_TRIAL: Final = Look(name="a trial", colour=0)
_BEST: Final = Look(name="best so far", colour=1)
_FRONTIER: Final = Look(name="no faster trial is better", colour=1)
_BAR: Final = 7.0  # pixels; its name stands above it
_ROW: Final = 27
_MOST_BARS: Final = 7


def progress_chart(trials: Sequence[TuneTrial], metric: str) -> Figure:
    points = [(float(t.number), t.score) for t in trials if t.score is not None]
    best: list[Point] = []
    for number, score in points:
        best.append((number, max(score, best[-1][1]) if best else score))
    axes = Axes(x_label="trial", whole=True)
    dots = [Line(look=_TRIAL, points=[point], dots=True) for point in points]
    return line_chart(f"{metric} on the hold-out", [*dots, Line(look=_BEST, points=best)], axes)


def frontier_chart(trials: Sequence[TuneTrial], metric: str) -> Figure:
    points = [(t.seconds, t.score) for t in trials if t.score is not None]
    edge = frontier(points)
    axes = Axes(x_label="seconds of the trial", x=(0.0,))
    dots = [Line(look=_TRIAL, points=[point], dots=True) for point in points]
    under = "A line through the trials that no faster one beats: what more time buys."
    line = Line(look=_FRONTIER, points=edge, dots=True)
    return line_chart(f"{metric} against time", [*dots, line], axes, under=under)


def frontier(points: Sequence[Point]) -> list[Point]:
    """Those that are better than every faster one.

    >>> frontier([(3.0, 0.5), (1.0, 0.2), (2.0, 0.1), (4.0, 0.4), (5.0, 0.6)])
    [(1.0, 0.2), (3.0, 0.5), (5.0, 0.6)]
    """
    out: list[Point] = []
    for point in sorted(points, key=lambda p: (p[0], -p[1])):
        if not out or point[1] > out[-1][1]:
            out.append(point)
    return out


def importance_chart(shares: Mapping[str, float]) -> Figure:
    title = "What mattered"
    if not shares:
        return Figure(title=title)
    place = Place(x=(0.0, max(shares.values()) or 1.0), y=(0.0, 1.0))
    shapes: list[Shape] = list(x_axis(place, ticks(0.0, max(shares.values()) or 1.0), "share"))
    left = place.across(0.0)
    for number, (name, share) in enumerate(list(shares.items())[:_MOST_BARS]):
        y = 16.0 + _ROW * number
        width = max(1.0, place.across(share) - left)
        shapes.append(text("t", left, y, f"{name} {100 * share:.0f}%", None))
        shapes.append(Shape("rect", "d0", x=left, y=y + 4, width=width, height=_BAR))
    under = "The share of each setting in what made trials good (PED-ANOVA)."
    return Figure(title=title, shapes=shapes, under=under)
