"""Is a series rising, how fast, and when does it meet its limit? Never a number from two points.

The slope is Theil and Sen's: the median of the slopes between all pairs of points, which a minority
of outliers (a collection of garbage, an evaluation) does not move. It counts as rising only where
the lower end of its confidence interval (Sen 1968) does, and where it still rose of late.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

WINDOW_S: Final = 300.0
"""How far back a slope looks."""
HORIZON_S: Final = 86400.0
"""Minutes of history say nothing about more than a day."""
LEAST_POINTS: Final = 6
LEAST_SPAN_S: Final = 5.0
_MOST_POINTS: Final = 40
"""Pairs grow with the square."""
_Z: Final = 1.96
_STILL: Final = 0.1
"""A last third that rises slower than this share of the whole has stopped rising."""

Point = tuple[float, float]
"""Seconds, value."""


class Trend(NamedTuple):
    rising: bool | None
    """None: too early to say."""
    per_s: float = 0.0
    """0 where it does not rise."""


TOO_EARLY: Final = Trend(None)
NOT_RISING: Final = Trend(False)


def trend(points: Sequence[Point]) -> Trend:
    """Of points in the order of their time."""
    chosen = _thinned(points)
    if len(chosen) < LEAST_POINTS or chosen[-1][0] - chosen[0][0] < LEAST_SPAN_S:
        return TOO_EARLY
    slopes = _slopes(chosen)
    if not slopes or slopes[_lower_rank(len(chosen), len(slopes))] <= 0:
        return NOT_RISING
    slope = statistics.median(slopes)
    recent = _slopes(_last_third(chosen))
    if len(recent) >= LEAST_POINTS and statistics.median(recent) < _STILL * slope:
        return NOT_RISING
    return Trend(True, slope)


def theil_sen(points: Sequence[Point]) -> float | None:
    """The slope alone, whatever its sign; x need not be seconds. None of too few points."""
    chosen = _thinned(points)
    slopes = _slopes(chosen) if len(chosen) >= LEAST_POINTS else []
    return statistics.median(slopes) if slopes else None


def seconds_left(trend: Trend, held: float, limit: float) -> float | None:
    """Until the limit is met at this slope; None where it is not, or not within a day."""
    if not trend.rising or trend.per_s <= 0:
        return None
    left = max(0.0, limit - held) / trend.per_s
    return left if left <= HORIZON_S else None


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Evenly spread, the newest among them."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    stride = (len(points) - 1) / (_MOST_POINTS - 1)
    return [points[round(i * stride)] for i in range(_MOST_POINTS)]


def _slopes(points: Sequence[Point]) -> list[float]:
    pairs = combinations(points, 2)
    return sorted((b - a) / (t - s) for (s, a), (t, b) in pairs if t > s)


def _lower_rank(points: int, slopes: int) -> int:
    spread = _Z * math.sqrt(points * (points - 1) * (2 * points + 5) / 18)
    return max(0, int((slopes - spread) / 2))


def _last_third(points: Sequence[Point]) -> list[Point]:
    begin = points[-1][0] - (points[-1][0] - points[0][0]) / 3
    return [point for point in points if point[0] >= begin]
