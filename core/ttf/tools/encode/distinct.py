"""Which things are equal, by 128-bit hashes on the disk: memory does not grow with their number.

The hashes are read several times, each time for another share of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

KEY_BYTES: Final = 16
_AT_ONCE: Final = 2 << 20  # Keys that are sorted at a time: about 130 MB.
_READ: Final = 1 << 18


def key_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()


class KeyWriter:
    """Keys in the order of their arrival."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 20)
        self.count = 0

    def append(self, key: bytes) -> int:
        self._file.write(key)
        self.count += 1
        return self.count - 1

    def close(self) -> None:
        self._file.close()


def first_equal(keys: Path, out: Path) -> NDArray[np.int64]:
    """For each key the number of the first one that is equal; written to `out`."""
    count = keys.stat().st_size // KEY_BYTES
    if not count:
        return np.empty(0, np.int64)
    found: NDArray[np.int64] = np.memmap(out, np.int64, "w+", shape=(count,))
    rounds = -(-count // _AT_ONCE)
    for number in range(rounds):
        numbers, halves = _share(keys, number, rounds)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        ordered = halves[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        group = np.cumsum(begins) - 1
        found[numbers[order]] = numbers[order][begins][group]  # stable: the first of each is first
    return found


def _share(keys: Path, number: int, rounds: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """(numbers, keys) of every `rounds`-th key, by value."""
    numbers, chosen = [np.empty(0, np.int64)], [np.empty((0, 2), np.uint64)]
    for first, halves in _blocks(keys):
        wanted = np.flatnonzero(halves[:, 0] % np.uint64(rounds) == number)
        numbers.append(wanted + first)
        chosen.append(halves[wanted])
    return np.concatenate(numbers), np.concatenate(chosen)


def _blocks(keys: Path) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    first = 0
    with keys.open("rb") as file:
        while data := file.read(_READ * KEY_BYTES):
            halves = np.frombuffer(data, np.uint64).reshape(-1, 2)
            yield first, halves
            first += len(halves)
