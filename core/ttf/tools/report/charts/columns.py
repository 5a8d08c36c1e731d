"""Stacked columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttf.tools.report.charts.axes import Place, ticks, x_axis, y_axis
from ttf.tools.report.charts.figure import Figure, Look, Shape


def column_chart(
    title: str,
    parts: Sequence[Sequence[float]],
    looks: Sequence[Look],
    *,
    edges: Sequence[float],
    x_label: str,
    y_text: Callable[[float], str],
    under: str = "",
) -> Figure:
    """A column between each two neighbours of `edges`."""
    top = max(map(sum, parts), default=0.0)
    if not top > 0:
        return Figure(title=title)
    y_ticks = ticks(0.0, top)
    place = Place(x=(edges[0], edges[-1]), y=(0.0, y_ticks[-1]))
    shapes = list(y_axis(place, y_ticks, y_text))
    for part, left, right in zip(parts, edges, edges[1:], strict=False):
        low = 0.0
        x = place.across(left) + 0.5
        width = max(place.across(right) - x - 0.5, 0.5)
        for value, look in zip(part, looks, strict=True):
            y, bottom = place.up(low + value), place.up(low)
            if value > 0:
                kind = f"d{look.colour}"
                shapes.append(Shape("rect", kind, x=x, y=y, width=width, height=bottom - y))
            low += value
    shapes += x_axis(place, ticks(edges[0], edges[-1], whole=True), x_label)
    return Figure(title=title, shapes=shapes, legend=dict.fromkeys(looks, False), under=under)
