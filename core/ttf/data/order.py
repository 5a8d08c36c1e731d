"""Which training rows an optimizer step takes, and the keyed random numbers that decide it.

Every draw is a pure function of a seed and its purpose: nothing must be saved to resume at step t,
and the order does not depend on threads, storage or how a step is cut into micro-batches.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 8192


def key(*parts: int | str) -> int:
    """A 64-bit key from a seed and labels; equal parts give equal keys on every machine."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def derived_seed(seed: int, label: str) -> int:
    """A seed for one purpose, from the seed of the run: 31 bits, which every library accepts."""
    return key(seed, label) & 0x7FFFFFFF


def hash64(values: NDArray[np.int64] | NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """A well-mixed 64-bit hash of each value under `key` (splitmix64's finalizer, twice)."""
    mixed = values.astype(np.uint64) ^ np.uint64(key)
    for _ in range(2):
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


def uniform(values: NDArray[np.int64], key: int) -> NDArray[np.float64]:
    return (hash64(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Permutation:
    """A keyed bijection of range(size): element i costs O(1), nothing is stored.

    A Feistel network on the smallest even number of bits that holds `size`, repeated until the
    result is inside (fewer than four rounds on average).
    """

    ROUNDS = 6
    # Below 256 elements the halves are so narrow that pairs are measurably uneven after six.
    ROUNDS_SMALL = 10

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self._half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        rounds = self.ROUNDS if self._half >= 4 else self.ROUNDS_SMALL
        self._keys = [int(k) for k in hash64(np.arange(rounds, dtype=np.int64), key)]

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        # IndexError outside range(size), because the walk might not end there.
        if positions.size and (positions.min() < 0 or positions.max() >= self.size):
            raise IndexError(f"positions must be between 0 and {self.size - 1}")
        out = self._once(positions.astype(np.uint64))
        outside = np.flatnonzero(out >= self.size)
        while outside.size:
            out[outside] = self._once(out[outside])
            outside = outside[out[outside] >= self.size]
        return out.astype(np.int64)

    def _once(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for round_key in self._keys:
            left, right = right, left ^ (hash64(right, round_key) & self._mask)
        return (left << self._half) | right


def sampled_rows(num_rows: int, count: int, seed: int, label: str) -> NDArray[np.int64]:
    """`count` different rows of `num_rows`, ascending; the same for the same seed and label."""
    return np.sort(Permutation(num_rows, key(seed, label))(np.arange(count)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """The schedule of rows of a run; steps count from 0, epochs from 1."""

    size: int
    samples_per_step: int
    seed: int
    fingerprint: str
    shuffle: bool = True  # False: rows in file order, every epoch the same, the last ones left out.

    @property
    def steps_per_epoch(self) -> int:
        return self.size // self.samples_per_step

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch + 1

    def rows(self, step: int) -> NDArray[np.int64]:
        """The rows of an optimizer step. An epoch leaves out size % samples_per_step rows; with
        shuffling, different ones each time."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        together = max(1, _AT_ONCE // self.samples_per_step)
        first = batch - batch % together
        start = (batch - first) * self.samples_per_step
        return _rows_of_steps(self, epoch, first, together)[start : start + self.samples_per_step]

    def rows_between(self, start: int, stop: int) -> NDArray[np.int64]:
        """The distinct rows of steps start..stop, sorted: the rows of a mining round."""
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
    # Some steps of an epoch at once: for one small step, numpy's call overhead is the cost.
    last = min(first + count, order.steps_per_epoch)
    size = order.samples_per_step
    rows = order._rows_of(epoch, first * size, last * size)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=4)
def _permutation(size: int, seed: int, epoch: int, fingerprint: str) -> Permutation:
    return Permutation(size, key(seed, "order", epoch, fingerprint))
