"""Fisher's exact test, for the column `p` of the table: it knows nothing of the other ingredients."""

from __future__ import annotations

import math

from ttf.tools.bisect.planner import Tally, sums


def p_value(tally: Tally, name: str) -> float:
    """One-sided, Fisher's exact test: do runs without the ingredient crash less often?"""
    without = sums({k: v for k, v in tally.items() if name in k})
    rest = sums({k: v for k, v in tally.items() if name not in k})
    return fisher(without[1], without[0] - without[1], rest[1], rest[0] - rest[1])


def fisher(a: int, b: int, c: int, d: int) -> float:
    """The chance of `a` or fewer in the table [[a, b], [c, d]], were rows and columns independent.

    >>> round(fisher(0, 4, 4, 0), 4)
    0.0143
    """
    row, column, total = a + b, a + c, a + b + c + d
    low = max(0, row + column - total)
    ways = math.comb(total, row)
    return sum(math.comb(column, k) * math.comb(total - column, row - k)
               for k in range(low, a + 1)) / ways  # fmt: skip
