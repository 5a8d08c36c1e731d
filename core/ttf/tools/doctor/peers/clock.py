"""How far the clock of another node is from ours, from round trips. Decisions of a run use no such
clock; its files and logs do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

_SAMPLES: Final = 9


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One round trip: when it began by our wall clock, its length by our monotonic one, and the
    other node's wall clock in between."""

    began: float
    took_s: float
    other: float


@dataclass(frozen=True, kw_only=True)
class Skew:
    """The other clock minus ours; `error_s`: it is at most so wrong."""

    offset_s: float
    error_s: float


def skew(samples: Iterable[Sample]) -> Skew:
    """From the shortest round trip.

    >>> skew([Sample(began=100.0, took_s=0.2, other=120.1), Sample(began=101.0, took_s=2.0, other=130)])
    Skew(offset_s=20.0, error_s=0.1)
    """
    best = min(samples, key=lambda sample: sample.took_s)
    offset = best.other - (best.began + best.took_s / 2)
    return Skew(offset_s=round(offset, 6), error_s=best.took_s / 2)


def measured(ask: Callable[[], float]) -> Skew:
    """`ask` returns the time that the other node's clock shows."""
    return skew([_sample(ask) for _ in range(_SAMPLES)])


def _sample(ask: Callable[[], float]) -> Sample:
    began, start = time.time(), time.monotonic()
    other = ask()
    return Sample(began=began, took_s=time.monotonic() - start, other=other)
