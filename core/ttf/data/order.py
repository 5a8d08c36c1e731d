"""Which training rows an optimizer step takes: a pure function of (seed, epoch, batch, data).

Nothing has to be saved to continue a run at step t, and the order does not depend on threads,
storage or how a step is cut into micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ttf.data.keyed_random import Permutation, key

_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class Order:
    """The schedule of rows of a run; steps count from 0, epochs from 1."""

    size: int
    samples_per_step: int
    seed: int
    fingerprint: str
    shuffle: bool = True
    """False: the rows as they lie, every epoch the same, the last ones left out."""

    @property
    def steps_per_epoch(self) -> int:
        return self.size // self.samples_per_step

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch + 1

    def rows(self, step: int) -> NDArray[np.int64]:
        """The rows of an optimizer step; an epoch leaves out size % samples_per_step of them,
        others each time where it shuffles."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        together = max(1, _AT_ONCE // self.samples_per_step)
        first = batch - batch % together
        start = (batch - first) * self.samples_per_step
        return _rows_of_steps(self, epoch, first, together)[start : start + self.samples_per_step]

    def rows_between(self, start: int, stop: int) -> NDArray[np.int64]:
        """The distinct rows that steps start..stop visit, sorted: what a mining round covers."""
        visited = np.zeros(self.size, dtype=np.bool_)
        length = self.steps_per_epoch
        for epoch in range(start // length, -(-stop // length)):
            first = max(start - epoch * length, 0) * self.samples_per_step
            last = min(stop - epoch * length, length) * self.samples_per_step
            visited[self._rows_of(epoch, first, last)] = True
            if visited.all():
                break
        return np.flatnonzero(visited).astype(np.int64)

    def _rows_of(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        positions = np.arange(start, stop, dtype=np.int64)
        if not self.shuffle:
            return positions
        return _permutation(self.size, self.seed, epoch, self.fingerprint)(positions)


@lru_cache(maxsize=4)
def _rows_of_steps(order: Order, epoch: int, first: int, count: int) -> NDArray[np.int64]:
    """Of some steps of an epoch at once: for one small step, calling numpy is what takes time."""
    last = min(first + count, order.steps_per_epoch)
    size = order.samples_per_step
    rows = order._rows_of(epoch, first * size, last * size)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=4)
def _permutation(size: int, seed: int, epoch: int, fingerprint: str) -> Permutation:
    return Permutation(size, key(seed, "order", epoch, fingerprint))
