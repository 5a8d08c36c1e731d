"""Intervals of a rate, and of the difference of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from ttf.tools.ab.stats.boschloo import chances


def clopper_pearson(events: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a rate: it covers at least as often as it says, at any rate.

    >>> [round(x, 4) for x in clopper_pearson(1, 20)]
    [0.0013, 0.2487]
    """
    tail = (1 - confidence) / 2
    low = _rate_with(lambda rate: chances(rate, n)[events:].sum(), tail) if events else 0.0
    if events == n:
        return low, 1.0
    return low, _rate_with(lambda rate: chances(rate, n)[events + 1 :].sum(), 1 - tail)


def _rate_with(chance: Callable[[float], float], wanted: float) -> float:
    """The rate at which the increasing function `chance` is `wanted`."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if chance(middle) < wanted else (low, middle)
    return low


def wilson(events: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval of a rate: shorter than the exact one, right on average.

    >>> [round(x, 4) for x in wilson(1, 20)]
    [0.0089, 0.2361]
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = events / n
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def newcombe(a: int, of_a: int, b: int, of_b: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of b's rate minus a's (Newcombe 1998, method 10: from two Wilson intervals).

    >>> [round(x, 4) for x in newcombe(56, 70, 48, 80)]
    [-0.3339, -0.0524]
    """
    (low_a, high_a), (low_b, high_b) = wilson(a, of_a, confidence), wilson(b, of_b, confidence)
    rate_a, rate_b = a / of_a, b / of_b
    effect = rate_b - rate_a
    return (
        effect - math.hypot(rate_b - low_b, high_a - rate_a),
        effect + math.hypot(high_b - rate_b, rate_a - low_a),
    )
