"""Fisher's exact test of a table [[a, b], [c, d]]: integers and the standard library, no rounding."""

from __future__ import annotations

import math


def at_most(a: int, b: int, c: int, d: int) -> float:
    """One-sided: the chance of `a` or fewer, were rows and columns independent.

    >>> round(at_most(0, 4, 4, 0), 4)
    0.0143
    """
    ways, low = _ways(a, b, c, d)
    return sum(ways[: a - low + 1]) / sum(ways)


def two_sided(a: int, b: int, c: int, d: int) -> float:
    """The chance of a table as unlikely as this one, or more so.

    >>> round(two_sided(1, 19, 9, 11), 4)
    0.0084
    """
    ways, low = _ways(a, b, c, d)
    seen = ways[a - low]
    return sum(way for way in ways if way <= seen) / sum(ways)


def _ways(a: int, b: int, c: int, d: int) -> tuple[list[int], int]:
    """In how many ways each value of `a` comes about with these margins, and the lowest of them."""
    row, column, total = a + b, a + c, a + b + c + d
    low = max(0, row + column - total)
    return [
        math.comb(column, k) * math.comb(total - column, row - k)
        for k in range(low, min(row, column) + 1)
    ], low
