"""The incomplete beta function and its inverse, of which exact intervals of rates are made."""

from __future__ import annotations

import math

_TINY = 1e-300
_TERMS = 10_000


def regularized(a: float, b: float, x: float) -> float:
    """I_x(a, b): the chance that a Beta(a, b) value is at most x.

    >>> round(regularized(2, 3, 0.5), 12)
    0.6875
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast only on its own side of the mean.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - x) / b


def quantile(a: float, b: float, share: float) -> float:
    """The x with I_x(a, b) = share.

    >>> round(quantile(2, 3, 0.6875), 12)
    0.5
    """
    low, high = 0.0, 1.0
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if regularized(a, b, middle) < share:
            low = middle
        else:
            high = middle


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's evaluation of the continued fraction (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _away(value: float) -> float:
    """Never 0, as a denominator."""
    return value if abs(value) > _TINY else _TINY
