"""Maps many chunk files into one address range, so that one gather reads from all of them.

The range is reserved first. Each file is mapped into its place on first use, and its descriptor is
closed. Places are multiples of the page size and the row size, so the range is one matrix of rows
(with unused rows between the files).

Where they are multiples of a huge page, too, the kernel maps huge pages of its cache whole: 512 rows of
3 KB from 184 MB then took 173 us instead of 239 (ext4, Linux 6.18).
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf import DataChanged, StorageError
from ttf_storage._mapped import FileIdentity, check_identity, unreadable
from ttf_storage._page_hints import PagedRows
from ttf_storage._zarr_files import ChunkFile

# Per process. A file and the gap behind it are two of the 65,530 maps that Linux allows.
_MOST_MAPS: Final = 16_000
_LARGEST: Final = 1 << 45  # a process has 47 bits of addresses
_HUGE_PAGE: Final = 2 << 20  # on most processors
_MAP_FIXED: Final = 0x10  # on Linux, macOS and the BSDs alike; Python's mmap does not name it


class _Maps:
    """Counts how many more files this process may map."""

    def __init__(self) -> None:
        self._left = _MOST_MAPS
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        with self._lock:
            if count > self._left:
                return False
            self._left -= count
            return True

    def give_back(self, count: int) -> None:
        with self._lock:
            self._left += count


_maps: Final = _Maps()


class Region:
    """The rows of an array whose files hold all rows at multiples of the row size."""

    def __init__(
        self, files: list[ChunkFile], base: int, pitch: int, row_bytes: int, chunk_rows: int
    ) -> None:
        self._files = files
        self._pitch = pitch
        self._chunk_rows = chunk_rows
        self._lock = threading.Lock()
        self._mapped = np.zeros(len(files), np.bool_)
        self._chunks_per_file = len(files[0].offsets)
        # Its pages may not be touched until a file lies there; unmapped with the last view on it.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._range = mmap.mmap(-1, pitch * len(files) + _HUGE_PAGE, flags=flags, prot=0)
        weakref.finalize(self._range, _maps.give_back, len(files)).atexit = False
        lines = (pitch * len(files) - base) // row_bytes
        first = -_address_of(np.ndarray(1, np.uint8, buffer=self._range)) % _HUGE_PAGE
        matrix: NDArray[np.uint8] = np.ndarray(
            (lines, row_bytes), np.uint8, buffer=self._range, offset=first + base
        )
        self._address = _address_of(matrix) - base
        self._rows = PagedRows(self._range, first + base, matrix)
        self._first_lines: NDArray[np.int64] = np.concatenate(
            [(f.offsets - base + i * pitch) // row_bytes for i, f in enumerate(files)]
        )
        self._closed = False

    @classmethod
    def over(cls, files: list[ChunkFile], row_bytes: int, chunk_rows: int) -> Self | None:
        """Returns None if the files do not line up, are too many, or addresses are scarce."""
        if not files or sys.maxsize < _LARGEST or _libc_mmap() is None:
            return None
        used = np.concatenate([f.offsets for f in files])
        used = used[used >= 0]
        base = int(used[0]) % row_bytes
        if ((used - base) % row_bytes).any():
            return None
        pitch = _pitch(max(f.identity.size for f in files), row_bytes)
        if not 0 < pitch * len(files) <= _LARGEST or not _maps.take(len(files)):
            return None
        try:
            return cls(files, base, pitch, row_bytes, chunk_rows)
        except OSError:  # a limit on addresses (ulimit -v): the files are mapped a few at a time
            _maps.give_back(len(files))
            return None

    def take(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Copies rows of the array. All are within it."""
        self._rows.take(self._lines(rows), out)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        self._rows.will_need(self._lines(rows))

    @property
    def on_disk(self) -> bool:
        return self._rows.on_disk

    def contiguous(self, start: int, stop: int, itemsize: int) -> NDArray[np.uint8] | None:
        """Returns rows start..stop as a view, or None if they are not contiguous and aligned."""
        if _address_of(self._rows.matrix) % itemsize or stop == start:
            return None
        first, last = start // self._chunk_rows, (stop - 1) // self._chunk_rows
        places = self._first_lines[first : last + 1]
        if (np.diff(places) != self._chunk_rows).any():
            return None
        self._map_files(np.arange(first, last + 1) // self._chunks_per_file)
        line = int(places[0]) + start - first * self._chunk_rows
        return self._rows.matrix[line : line + stop - start]

    def close(self) -> None:
        self._closed = True

    def _lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the matrix lines of these rows of the array, and maps their files."""
        chunk = rows // self._chunk_rows
        self._map_files(chunk // self._chunks_per_file)
        lines: NDArray[np.int64] = self._first_lines[chunk] + (rows - chunk * self._chunk_rows)
        return lines

    def _map_files(self, numbers: NDArray[np.int64]) -> None:
        if self._closed:
            raise ValueError(f"{self._files[0].path.parent} was closed")
        if self._mapped[numbers].all():
            return
        with self._lock:
            for number in np.unique(numbers).tolist():
                if not self._mapped[number]:
                    self._map(number)
                    self._mapped[number] = True

    def _map(self, number: int) -> None:
        file = self._files[number]
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(file.path, error) from error
        try:
            if FileIdentity.of(descriptor) != file.identity:
                check_identity(file.path, file.identity)
                raise DataChanged(f"{file.path} changed while it was in use.")
            self._map_open(descriptor, file, self._address + number * self._pitch)
        finally:
            os.close(descriptor)

    def _map_open(self, descriptor: int, file: ChunkFile, address: int) -> None:
        call = _libc_mmap()
        assert call is not None
        flags = mmap.MAP_SHARED | _MAP_FIXED
        if call(address, file.identity.size, mmap.PROT_READ, flags, descriptor, 0) != address:
            reason = os.strerror(ctypes.get_errno())
            raise StorageError(
                f"{file.path} could not be mapped: {reason}.",
                hint="Raise vm.max_map_count, or write the array in fewer, larger shards.",
            )


def _pitch(largest: int, row_bytes: int) -> int:
    """The distance of files: none between files of whole pages and rows, which are then one array."""
    unit = math.lcm(row_bytes, mmap.PAGESIZE)
    huge = math.lcm(row_bytes, _HUGE_PAGE)
    if largest % unit and huge <= largest:
        unit = huge
    return -(-largest // unit) * unit


def _address_of(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


@functools.cache
def _libc_mmap() -> Callable[..., Any] | None:
    """Returns the C library's mmap, or None if no mmap takes an address here."""
    if os.name != "posix":
        return None
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.restype = ctypes.c_void_p
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    return found
