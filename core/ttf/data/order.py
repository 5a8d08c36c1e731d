"""Which training rows an optimizer step takes: a pure function of (seed, epoch, batch, data).

Nothing has to be saved to continue a run at step t, and the order does not depend on threads,
storage or how a step is cut into micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ttf.keyed import Permutation, key


@dataclass(frozen=True, kw_only=True)
class Order:
    """The schedule of rows of a run; steps count from 0, epochs from 1."""

    size: int
    samples_per_step: int
    seed: int
    fingerprint: str

    @property
    def steps_per_epoch(self) -> int:
        return self.size // self.samples_per_step

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch + 1

    def rows(self, step: int) -> NDArray[np.int64]:
        """The rows of an optimizer step; an epoch leaves out size % samples_per_step of them,
        others each time."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        start = batch * self.samples_per_step
        positions = np.arange(start, start + self.samples_per_step, dtype=np.int64)
        return _permutation(self.size, self.seed, epoch, self.fingerprint)(positions)

    def rows_between(self, start: int, stop: int) -> NDArray[np.int64]:
        """The distinct rows that steps start..stop visit, sorted: what a mining round covers."""
        visited = np.zeros(self.size, dtype=np.bool_)
        for step in range(start, stop):
            visited[self.rows(step)] = True
        return np.flatnonzero(visited).astype(np.int64)


@lru_cache(maxsize=4)
def _permutation(size: int, seed: int, epoch: int, fingerprint: str) -> Permutation:
    return Permutation(size, key(seed, "order", epoch, fingerprint))
