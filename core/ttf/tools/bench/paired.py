"""Comparing speeds on a noisy machine: arms take turns, and paired ratios are compared.

A machine that slows down for a minute slows every arm down; only ratios of neighbours are reliable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The median of paired ratios and its 95% bounds."""

    median: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g}, n = {self.repeats})"


def in_turns(
    arms: Mapping[str, Callable[[], object]],
    repeats: int,
    *,
    warm: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[float]]:
    """Seconds of each call, in rounds. Every second round is reversed (A B, B A, ...), so that a
    drift of the machine favours no arm. The first `warm` rounds do not count."""
    names = list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    total = (warm + repeats) * len(names)
    done = 0
    for number in range(warm + repeats):
        for name in names if number % 2 == 0 else reversed(names):
            began = time.perf_counter()
            arms[name]()
            taken = time.perf_counter() - began
            if number >= warm:
                seconds[name].append(taken)
            done += 1
            progress(done, total)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """The paired ratio above / below; of seconds, how many times faster `below` is.

    >>> str(ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]))
    '2 (2 to 2, n = 3)'
    """
    pairs = np.asarray(above, np.float64) / np.asarray(below, np.float64)
    draws = np.random.default_rng(0).choice(pairs, (_DRAWS, len(pairs)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return Ratio(
        median=float(np.median(pairs)), low=float(low), high=float(high), repeats=len(pairs)
    )
