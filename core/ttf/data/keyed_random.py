"""Keyed randomness without state: every draw is a pure function of a seed and what it is for.

Nothing here has to be saved or replayed to resume a run.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def key(*parts: int | str) -> int:
    """A 64-bit key from a seed and labels; equal parts give equal keys on every machine."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


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
    """A number in [0, 1) for each value."""
    return (hash64(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Permutation:
    """A keyed bijection of range(size): element i costs O(1), nothing is stored.

    A Feistel network on the smallest even number of bits that holds `size`, walked until it
    lands inside (on average fewer than four rounds).
    """

    ROUNDS = 6
    ROUNDS_SMALL = 10
    """Below 256 elements the halves are so narrow that pairs are measurably uneven after six."""

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self._half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        rounds = self.ROUNDS if self._half >= 4 else self.ROUNDS_SMALL
        self._keys = [int(k) for k in hash64(np.arange(rounds, dtype=np.int64), key)]

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each position goes; IndexError outside range(size), whose walk might not end."""
        if positions.size and (positions.min() < 0 or positions.max() >= self.size):
            raise IndexError(f"positions must lie in 0..{self.size - 1}")
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
