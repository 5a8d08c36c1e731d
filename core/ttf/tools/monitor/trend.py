"""Whether a series is rising, how fast, and when it meets its limit.

The slope is that of Theil and Sen: the median of the slopes between all pairs of points. A minority
of outliers (a garbage collection, an evaluation) does not change it. A series is rising if the
lower end of the confidence interval (Sen 1968) is, and if it still rose recently. Two points are
never enough.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

WINDOW_S: Final = 300.0  # how far back a slope looks
HORIZON_S: Final = 86400.0  # minutes of history say nothing about more than a day
LEAST_POINTS: Final = 6
LEAST_SPAN_S: Final = 5.0
_MOST_POINTS: Final = 40  # the number of pairs grows with the square
_Z: Final = 1.96
# The series has stopped if its last third is slower than this share of the whole.
_STILL: Final = 0.1

Point = tuple[float, float]  # (seconds, value)


class Trend(NamedTuple):
    rising: bool | None  # None: too early to say
    per_s: float = 0.0  # 0 if not rising


TOO_EARLY: Final = Trend(None)
NOT_RISING: Final = Trend(False)


def trend(points: Sequence[Point]) -> Trend:
    """`points` are in the order of time."""
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
    """The slope, also a negative one; x can be any unit. None if there are too few points."""
    chosen = _thinned(points)
    slopes = _slopes(chosen) if len(chosen) >= LEAST_POINTS else []
    return statistics.median(slopes) if slopes else None


def seconds_left(trend: Trend, held: float, limit: float) -> float | None:
    """Until the limit is reached; None if never, or not within a day."""
    if not trend.rising or trend.per_s <= 0:
        return None
    left = max(0.0, limit - held) / trend.per_s
    return left if left <= HORIZON_S else None


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Evenly spread points, always with the newest."""
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
