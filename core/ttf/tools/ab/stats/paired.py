"""The sign-flip test of paired differences, and the interval that is its inverse.

Arms of a block ran on one machine with one seed in random order: if they are equal, each difference
could have the other sign as well. So the mean is compared with the means of all 2^n choices of
signs. No distribution is assumed, and the level is exact for any n.

To test whether the true difference is t, t is subtracted first. Flipping a set J of signs keeps the
sum at least as large exactly if the mean over J is at most t (t below the mean): so the test at
every t is a count among means of subsets (Hartigan 1969), and the interval, all t that are not
rejected, ends at two of these means. It needs no search and always agrees with the p-value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

EXACT_UP_TO = 14
DRAWS = 19_999
_SEED = 20261119
_HOPELESS = 100_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SignFlip:
    """The test of one set of differences, for every hypothesis and level."""

    n: int
    mean: float
    lower: Floats  # For each choice of signs and its opposite, the lower mean of a subset; sorted.
    upper: Floats

    @property
    def choices(self) -> int:
        """The number of choices, opposites counted once; the data seen is one of them."""
        return len(self.lower) + 1

    def p_value(self, at: float = 0.0) -> float:
        """Two-sided: the share of choices that are as far from `at` as the data seen."""
        if self.mean == at:
            return 1.0
        if at < self.mean:
            as_far = int(np.searchsorted(self.lower, at, side="right"))
        else:
            as_far = len(self.upper) - int(np.searchsorted(self.upper, at, side="left"))
        return (1 + as_far) / self.choices

    def interval(self, alpha: float) -> tuple[float | None, float | None]:
        """All values with p >= alpha; no bounds if even the clearest result is not that rare."""
        k = math.ceil(alpha * self.choices - 1 - 1e-9)
        if k < 1:
            return None, None
        low, high = float(self.lower[k - 1]), float(self.upper[-k])
        return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)


def sign_flip(differences: Sequence[float]) -> SignFlip:
    """Exact up to 14 differences; for more, 19,999 choices of signs from a fixed seed. The data
    seen counts among them, so that p is never too small.

    >>> sign_flip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).p_value()
    0.03125
    """
    values = np.asarray(differences, np.float64)
    n = len(values)
    assert n and np.isfinite(values).all()
    flipped = _choices(n)
    count = flipped.sum(axis=1)
    sums = flipped @ values
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = sums / count
        outside = (values.sum() - sums) / (n - count)
    empty = (count == 0) | (count == n)
    dust = 1e-12 * float(np.abs(values).max())  # ties must stay ties after rounding

    def tidy(means: Floats, where_empty: float) -> Floats:
        means[np.abs(means) <= dust] = 0.0
        means[empty] = where_empty
        return np.sort(means)

    mean = float(values.mean())
    return SignFlip(
        n=n,
        mean=0.0 if abs(mean) <= dust else mean,
        lower=tidy(np.minimum(inside, outside), -math.inf),
        upper=tidy(np.maximum(inside, outside), math.inf),
    )


def fewest_pairs(alpha: float) -> int:
    """With fewer pairs no differences, however clear, have p < alpha: n pairs give at least 2^(1 -
    n).

    >>> fewest_pairs(0.05), fewest_pairs(0.05 / 8)
    (6, 9)
    """
    return math.floor(1 - math.log2(alpha)) + 1


def to_differ(effect: float, sigma: float, alpha: float = 0.05, wished: float = 0.8) -> int | None:
    """Pairs for this power to find a true mean of `effect`, if differences have the deviation
    `sigma`.

    The normal formula with Guenther's correction for an estimated sigma; never fewer than can
    reject.

    >>> to_differ(0.05, 0.05), to_differ(0.05, 0.05, alpha=0.05 / 8)
    (10, 17)
    """
    if effect == 0:
        return None
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2)
    n = ((z + normal.inv_cdf(wished)) * sigma / effect) ** 2 + z * z / 2
    return max(math.ceil(n), fewest_pairs(alpha)) if n < _HOPELESS else None


def to_be_same(
    effect: float, sigma: float, margin: float, alpha: float = 0.05, wished: float = 0.8
) -> int | None:
    """Pairs for this power to show "the same": the interval at 1 - 2 alpha within +-margin.

    >>> to_be_same(0.0, 0.02, 0.02), to_be_same(0.03, 0.02, 0.02)
    (11, None)
    """
    room = margin - abs(effect)
    if room <= 0:
        return None
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha)
    fewest = fewest_pairs(2 * alpha)
    if sigma == 0:
        return fewest
    # Between both ends' share of the misses and one end's, as the effect leaves the middle.
    low, high = 0, _HOPELESS
    while high - low > 1:
        n = (low + high) // 2
        root = math.sqrt(n) / sigma
        inside = normal.cdf(room * root - z) + normal.cdf((margin + abs(effect)) * root - z) - 1
        low, high = (low, n) if inside >= wished else (n, high)
    n = math.ceil(high + z * z / 2)
    return max(n, fewest) if high < _HOPELESS else None


@functools.lru_cache(maxsize=4)
def _choices(n: int) -> Floats:
    """One row per choice: 1 if the sign is flipped. Opposites come once; no flips is left out."""
    if n <= EXACT_UP_TO:
        numbers = np.arange(1, 2 ** (n - 1))[:, None]
        return (numbers >> np.arange(n) & 1).astype(np.float64)
    return np.random.default_rng(_SEED).integers(0, 2, (DRAWS, n)).astype(np.float64)
