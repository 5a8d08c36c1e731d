"""Reads many records of a file with few system calls: neighbours are read together."""

from __future__ import annotations

import errno
import os
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ttf.data.embedding.records import UNIT, Records
from ttf.errors import ArtifactDamaged
from ttf.process import platform

# Reading what lies between two records is cheaper than another system call, up to this distance.
_GAP: Final = 16 << 10
# What is read in one go stays in the processor's cache until it is copied.
_MOST: Final = 512 << 10
# RWF_DONTCACHE of Linux 6.14, for which `os` has no name: what was read leaves the page cache at once.
_DONT_CACHE: Final = 0x80


def runs(units: NDArray[np.int64], length: int, gap: int = _GAP) -> NDArray[np.int64]:
    """Where to cut ascending positions of records of `length` units into runs that are read in one
    go: the number of the first record of each run.

    >>> runs(np.array([0, 9, 5000]), 9).tolist()
    [0, 2]
    """
    far = np.diff(units, prepend=units[:1]) - length > gap // UNIT
    far[:1] = True
    begins = units[far][np.cumsum(far) - 1]
    # A long run is cut where it crosses a multiple of the most that is read, from its own beginning.
    cells = (units - begins) // (_MOST // UNIT)
    return np.flatnonzero(far | (np.diff(cells, prepend=0) > 0))


class Reader:
    """Has one buffer for all reads: memory that is used for the first time costs more than the read."""

    def __init__(self, *, cached: bool = True) -> None:
        """`cached` false: there is no room for the file in the page cache. To make room for what is
        soon thrown out costs as much as the read."""
        self._flags = 0 if cached or not platform.LINUX else _DONT_CACHE
        self._buffer = np.empty(2 * _MOST, np.uint8)

    def read(
        self, fd: int, name: str, units: NDArray[np.int64], out: Records, rows: NDArray[np.int64]
    ) -> int:
        """Puts the records at these positions, in units of 64 bytes, ascending, into `rows` of `out`
        (N, words). Returns how many bytes were read."""
        length = out.shape[1] * 4 // UNIT
        first = runs(units, length)
        begins = units[first]
        ends = np.append(units[first[1:] - 1], units[-1:]) + length
        filled = np.append(0, np.cumsum(ends - begins))
        bounds = np.append(first, len(units))
        # Records that lie alone are many: their runs fill the buffer before anything is copied, for
        # a copy of its own costs each more than its read.
        run = 0
        while run < len(first):
            last = np.searchsorted(filled, filled[run] + _MOST // UNIT, side="right") - 1
            stop = max(run + 1, int(last))
            places = filled[run : stop + 1] - filled[run]
            self._fill(fd, name, begins[run:stop] * UNIT, places * UNIT)
            here = slice(int(bounds[run]), int(bounds[stop]))
            moved = np.repeat(places[:-1] - begins[run:stop], np.diff(bounds[run : stop + 1]))
            out[rows[here]] = self._windows(out.shape[1])[units[here] + moved]
            run = stop
        return int(filled[-1]) * UNIT

    def _fill(
        self, fd: int, name: str, offsets: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        """The run at each offset goes to its place, and ends where the next one's place is."""
        if places[-1] > len(self._buffer):
            self._buffer = np.empty(int(places[-1]), np.uint8)
        view, edges = memoryview(self._buffer.data), places.tolist()
        for offset, begin, end in zip(offsets.tolist(), edges, edges[1:], strict=False):
            done = self._pread(fd, view[begin:end], offset)
            while begin + done < end:
                count = self._pread(fd, view[begin + done : end], offset + done)
                if not count:
                    raise ArtifactDamaged(
                        f"{name} is {os.fstat(fd).st_size:,} bytes long; a record at byte "
                        f"{offset:,} is missing."
                    )
                done += count

    def _pread(self, fd: int, into: memoryview, offset: int) -> int:
        if self._flags:
            try:
                return os.preadv(fd, [into], offset, self._flags)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
                self._flags = 0  # an older kernel, or a file system that cannot
        return os.preadv(fd, [into], offset)

    def _windows(self, words: int) -> Records:
        """A record at each unit of the buffer; they overlap."""
        units = len(self._buffer) // UNIT
        return as_strided(
            self._buffer.view(np.float32),
            (units - words * 4 // UNIT + 1, words),
            (UNIT, 4),
            writeable=False,
        )
