"""A comparison as a drawing: its interval and the margin."""

from __future__ import annotations

from typing import Final

from ttf.tools.ab.analysis import Comparison
from ttf.tools.report.charts.figure import Shape, line

WIDTH, HEIGHT = 216, 22  # the view box in study.html
_MIDDLE: Final = WIDTH / 2
_REACH: Final = 100.0  # pixels from 0 to either end


def bar(c: Comparison) -> list[Shape]:
    """The right half is b's: mirrored if lower is better."""
    if c.effect is None:
        return []
    sign = 1.0 if c.higher_is_better else -1.0
    low, high = c.ci if sign > 0 else (c.ci[1], c.ci[0])
    known = [abs(v) for v in (low, high, c.effect) if v is not None]
    reach = 1.05 * max([*known, 1.6 * c.margin])

    def at(value: float) -> float:
        return _MIDDLE + sign * value / reach * _REACH if reach else _MIDDLE

    left = _MIDDLE - _REACH - 6 if low is None else at(low)
    right = _MIDDLE + _REACH + 6 if high is None else at(high)
    y = HEIGHT / 2
    band = abs(at(c.margin) - _MIDDLE)
    shapes = [
        Shape("rect", "mg", x=_MIDDLE - band, y=2, width=2 * band, height=HEIGHT - 4),
        line("zero", _MIDDLE, 0, _MIDDLE, HEIGHT),
    ]
    if low is not None or high is not None:
        shapes.append(line("ci", left, y, right, y))
    for x, bound in ((left, low), (right, high)):
        if bound is not None:
            shapes.append(line("ci", x, y - 4, x, y + 4))
    look = "eff open" if c.verdict == "inconclusive" else "eff"
    return [*shapes, Shape("circle", look, cx=at(c.effect), cy=y, r=4)]
