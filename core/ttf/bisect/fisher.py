"""Fisher's exact test, for the column `p` of the table: it knows nothing of the other ingredients."""

from __future__ import annotations

from ttf.ab.stats.fisher import at_most as fisher
from ttf.bisect.design import Tally, sums

__all__ = ["fisher", "p_value"]


def p_value(tally: Tally, name: str) -> float:
    """One-sided, Fisher's exact test: do runs without the ingredient crash less often?"""
    without = sums({k: v for k, v in tally.items() if name in k})
    rest = sums({k: v for k, v in tally.items() if name not in k})
    return fisher(without[1], without[0] - without[1], rest[1], rest[0] - rest[1])
