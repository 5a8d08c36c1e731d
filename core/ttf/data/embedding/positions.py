"""Reads many records of a file with few system calls: neighbours are read together."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ttf.data.embedding.records import UNIT, Records
from ttf.errors import ArtifactDamaged

# Reading what lies between two records is cheaper than another system call, up to this distance.
_GAP: Final = 16 << 10
_MOST: Final = (
    512 << 10
)  # What is read in one go stays in the processor's cache until it is copied.


def runs(units: NDArray[np.int64], length: int, gap: int = _GAP) -> Iterator[slice]:
    """Cuts ascending positions of records of `length` units into runs that are read in one go.

    >>> [(s.start, s.stop) for s in runs(np.array([0, 9, 5000]), 9)]
    [(0, 2), (2, 3)]
    """
    if not len(units):
        return
    far = np.flatnonzero(np.diff(units) - length > gap // UNIT) + 1
    edges = [0, *far.tolist(), len(units)]
    for start, stop in itertools.pairwise(edges):
        while start < stop:
            last = int(np.searchsorted(units[start:stop], units[start] + _MOST // UNIT))
            yield slice(start, start + max(1, last))
            start += max(1, last)


class Reader:
    """Has one buffer for all reads: memory that is used for the first time costs more than the read."""

    def __init__(self) -> None:
        self._buffer = np.empty(_MOST, np.uint8)

    def read(
        self, fd: int, name: str, units: NDArray[np.int64], out: Records, rows: NDArray[np.int64]
    ) -> int:
        """Puts the records at these positions, in units of 64 bytes, ascending, into `rows` of `out`
        (N, words). Returns how many bytes were read."""
        words = out.shape[1]
        length = words * 4 // UNIT
        total = 0
        for run in runs(units, length):
            first = int(units[run.start])
            size = (int(units[run.stop - 1]) + length - first) * UNIT
            read = self._pread(fd, name, size, first * UNIT)
            # One window at each unit; they overlap.
            windows = as_strided(
                read.view(np.float32),
                (size // UNIT - length + 1, words),
                (UNIT, 4),
                writeable=False,
            )
            out[rows[run]] = windows[units[run] - first]
            total += size
        return total

    def _pread(self, fd: int, name: str, size: int, offset: int) -> NDArray[np.uint8]:
        if size > len(self._buffer):
            self._buffer = np.empty(size, np.uint8)
        buffer = self._buffer[:size]
        view = memoryview(buffer.data)
        done = 0
        while done < size:
            count = os.preadv(fd, [view[done:]], offset + done)
            if not count:
                raise ArtifactDamaged(
                    f"{name} is {offset + done:,} bytes long; a record at byte {offset:,} is missing."
                )
            done += count
        return buffer
