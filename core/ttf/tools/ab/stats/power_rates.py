"""The repeats needed to tell two crash rates apart, or to call them the same."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ttf.tools.ab.stats import boschloo, paired

_EXACT_UP_TO = 64
_HOPELESS = 100_000

Floats = npt.NDArray[np.float64]


def to_differ(p: float, q: float, alpha: float = 0.05, wished: float = 0.8) -> int | None:
    """The fewest repeats, each, with this power. Exact up to 64; above, by the normal distribution,
    which is accurate there. None if hopeless.

    >>> to_differ(0.05, 0.4), to_differ(0.05, 0.4, alpha=0.05 / 8)
    (20, 33)
    """
    if p == q:
        return None
    near = _by_formula(p, q, alpha, wished)
    if near > _EXACT_UP_TO:
        return near if near <= _HOPELESS else None
    return _fewest(lambda n: boschloo.power(p, q, n, alpha), wished, near)


def same(p: float, q: float, n: int, margin: float, alpha: float = 0.05) -> float:
    """The chance that Newcombe's interval at 1 - 2 alpha, of `n` repeats each, is in +-margin."""
    return float(boschloo.chances(p, n) @ _within(n, margin, alpha) @ boschloo.chances(q, n))


def to_be_same(
    p: float, q: float, margin: float, alpha: float = 0.05, wished: float = 0.8
) -> int | None:
    """The fewest repeats, each, for "the same within the margin" with this power. Exact up to 64;
    above, by the normal distribution. None if hopeless.

    >>> to_be_same(0.0, 0.0, 0.05)
    52
    """
    if abs(p - q) >= margin:
        return None
    sigma = math.sqrt(p * (1 - p) + q * (1 - q))
    near = paired.to_be_same(q - p, sigma, margin, alpha, wished)
    if near is None or near > _EXACT_UP_TO:
        return near
    return _fewest(lambda n: same(p, q, n, margin, alpha), wished, near)


def _fewest(power_of: Callable[[int], float], wished: float, near: int) -> int | None:
    # The power rises with n as a saw: start where it is surely enough, and go down.
    n = max(2, near)
    while power_of(n) < wished:
        n = math.ceil(1.05 * n) + 1
        if n > 2 * _EXACT_UP_TO:
            return n
    missed = 0
    best = n
    while n > 1 and missed < 4:
        n -= 1
        if power_of(n) >= wished:
            best, missed = n, 0
        else:
            missed += 1
    return best


def _by_formula(p: float, q: float, alpha: float, wished: float) -> int:
    normal = NormalDist()
    gap, middle = abs(p - q), (p + q) / 2
    spread = normal.inv_cdf(1 - alpha / 2) * math.sqrt(2 * middle * (1 - middle))
    spread += normal.inv_cdf(wished) * math.sqrt(p * (1 - p) + q * (1 - q))
    return math.ceil((spread / gap) ** 2)


@functools.lru_cache(maxsize=512)
def _within(n: int, margin: float, alpha: float) -> Floats:
    """1 for each table whose interval of the difference is within the margin."""
    z = NormalDist().inv_cdf(1 - alpha)
    share = np.arange(n + 1) / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    below, above = share - (middle - half), middle + half - share
    effect = share[None, :] - share[:, None]
    low = effect - np.hypot(below[None, :], above[:, None])
    high = effect + np.hypot(above[None, :], below[:, None])
    return ((low >= -margin) & (high <= margin)).astype(np.float64)
