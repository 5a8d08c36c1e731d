"""Reads many records of a file with few system calls: neighbours are read together."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.embedding.records import UNIT, Records
from ttf.errors import ArtifactDamaged

# Reading what lies between two records is cheaper than another system call, up to this distance.
_GAP: Final = 16 << 10
_MOST: Final = 4 << 20


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


def read_records(fd: int, name: str, units: NDArray[np.int64], out: Records) -> int:
    """Fills `out` (N, words) with the records at these positions, in units of 64 bytes, ascending.
    Returns how many bytes were read."""
    words = out.shape[1]
    length = words * 4 // UNIT
    total = 0
    for run in runs(units, length):
        first = int(units[run.start])
        size = (int(units[run.stop - 1]) + length - first) * UNIT
        read = _pread(fd, name, size, first * UNIT)
        total += size
        places = units[run] - first
        cells = read.view(np.float32).reshape(-1, UNIT // 4)
        if length == 1 or len(places) == 1:
            out[run] = cells[places[:, None] + np.arange(length)].reshape(-1, words)
        else:
            for column in range(length):
                at = slice(column * (UNIT // 4), (column + 1) * (UNIT // 4))
                out[run, at] = cells[places + column]
    return total


def _pread(fd: int, name: str, size: int, offset: int) -> NDArray[np.uint8]:
    buffer = np.empty(size, np.uint8)
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
