"""The strength `a` of the correction: chosen on held-out training pairs, by a bound.

For every pair, the full ranks with and without correction give a difference of the discounted gain
1 / log2(rank + 1) of its best positive. Over a small fixed grid, the `a` whose mean difference has
the highest lower bound is taken, if that bound is above 0 and neither the mean reciprocal rank nor
recall@10 is lower. The bounds hold for all of the grid together (Bonferroni), so that the best of
several is no better for having been the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

GRID: Final = (0.25, 0.5, 0.75, 1.0)
_LEVEL: Final = 0.05  # Of a wrong choice, one-sided, over the grid.
_TOP: Final = 10


@dataclass(frozen=True, kw_only=True)
class Choice:
    """`a` 0: without evidence of a gain; `why` says so."""

    a: float
    gain: float
    held_out: int
    why: str = ""


def choose(
    plain_QP: NDArray[np.int64],
    corrected: Mapping[float, NDArray[np.int64]],
) -> Choice:
    """Ranks count from 0, -1 is padding; those with correction by `a`."""
    deviations = NormalDist().inv_cdf(1 - _LEVEL / len(corrected))
    bounds = {a: _bound(plain_QP, ranks, deviations) for a, ranks in corrected.items()}
    best = max(bounds, key=lambda a: bounds[a][0])
    bound, mean = bounds[best]
    found = Choice(a=best, gain=mean, held_out=len(plain_QP))
    if bound <= 0:
        return Choice(a=0.0, gain=mean, held_out=len(plain_QP), why=_no_evidence(found, bound))
    if not _keeps_the_top(plain_QP, corrected[best]):
        why = (
            f"on {len(plain_QP):,} held-out training pairs it would lower recall@{_TOP} or the "
            "mean reciprocal rank"
        )
        return Choice(a=0.0, gain=mean, held_out=len(plain_QP), why=why)
    return found


def _no_evidence(found: Choice, bound: float) -> str:
    return (
        f"no evidence of a gain on {found.held_out:,} held-out training pairs: the best of "
        f"a = {', '.join(map(str, GRID))} changes the discounted gain by {found.gain:+.4f}, at "
        f"least {bound:+.4f}"
    )


def _bound(
    plain_QP: NDArray[np.int64], ranks_QP: NDArray[np.int64], deviations: float
) -> tuple[float, float]:
    """The lower bound of the mean difference, and the mean."""
    differences = _discounted(_best(ranks_QP)) - _discounted(_best(plain_QP))
    count = len(differences)
    if count < 2:
        return -math.inf, 0.0
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    return mean - deviations * spread / math.sqrt(count), mean


def _keeps_the_top(plain_QP: NDArray[np.int64], ranks_QP: NDArray[np.int64]) -> bool:
    before, after = _best(plain_QP), _best(ranks_QP)
    found = np.count_nonzero(after < _TOP) >= np.count_nonzero(before < _TOP)
    return bool(found and (1 / (after + 1.0)).mean() >= (1 / (before + 1.0)).mean())


def _best(ranks_QP: NDArray[np.int64]) -> NDArray[np.int64]:
    present = np.where(ranks_QP >= 0, ranks_QP, np.iinfo(np.int64).max // 2)
    return np.asarray(present.min(axis=1))


def _discounted(ranks_Q: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(1.0 / np.log2(ranks_Q + 2.0))
