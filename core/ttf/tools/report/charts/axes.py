"""Positions of values on a drawing, and its axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ttf.tools.report.charts.figure import HEIGHT, Shape, line, text

LEFT, TOP = 58, 12
END = 480 - 12  # right end of the horizontal axis
FLOOR = HEIGHT - 38  # y of the horizontal axis


@dataclass(frozen=True, kw_only=True)
class Place:
    """From values to pixels. Values outside the range of x are drawn at its end."""

    x: tuple[float, float]
    y: tuple[float, float] = (0.0, 0.0)

    def across(self, value: float) -> float:
        return LEFT + min(1.0, max(0.0, _share(value, *self.x))) * (END - LEFT)

    def up(self, value: float) -> float:
        return FLOOR - _share(value, *self.y) * (FLOOR - TOP)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def y_axis(place: Place, values: Sequence[float], name: Callable[[float], str]) -> Iterator[Shape]:
    """A grid line at each value."""
    for value in values:
        y = place.up(value)
        yield line("g", LEFT, y, END, y)
        yield text("t", LEFT - 6, y + 4, name(value), "end")


def x_axis(place: Place, values: Sequence[float], label: str) -> Iterator[Shape]:
    low, high = place.x
    for value in values:
        if low <= value <= high:
            x = place.across(value)
            anchor = "start" if x < LEFT + 10 else "end" if x > END - 20 else "middle"
            yield line("a", x, FLOOR, x, FLOOR + 4)
            yield text("t", x, FLOOR + 17, count(value), anchor)
    yield text("t", END, HEIGHT - 4, label, "end")


def ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Round values that span low..high; integers if `whole`.

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


def count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def short(value: float) -> str:
    return f"{value:.4g}"
