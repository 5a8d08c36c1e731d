"""A file mapped for reading, its identity, and its rows."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ttf import (
    BadData,
    DataChanged,
    DataMissing,
    DType,
    StorageError,
    numpy_dtype,
    open_inside,
    open_named,
)
from ttf_storage._page_hints import PagedRows
from ttf_storage._stored_rows import MappedStoredRows, as_bytes


@dataclass(frozen=True)
class FileIdentity:
    """Shows whether a file is still the one that was opened."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, file: Path | int) -> Self:
        """`file` is a path or an open descriptor."""
        stat = os.fstat(file) if isinstance(file, int) else file.stat()
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def check_identity(path: Path, opened: FileIdentity) -> None:
    """Raises DataChanged if the file changed since it was opened."""
    try:
        now = FileIdentity.of(path)
    except FileNotFoundError:
        what = "was deleted"
    else:
        if now == opened:
            return
        if (now.device, now.inode) != (opened.device, opened.inode):
            what = "was replaced by another file"
        elif now.size < opened.size:
            what = f"was truncated from {opened.size} to {now.size} bytes"
        else:
            what = "was overwritten"
    raise DataChanged(
        f"{path} {what} while it was in use.",
        hint="Never change a data file while it is read. Write new data to a new file in the same "
        "folder, then rename the new file over the old one.",
    )


class MappedFile:
    def __init__(self, path: Path, inside: Path | None = None) -> None:
        """`inside`: the folder that the user named, if it is not the file itself."""
        self.path = path
        self._closed = False
        try:
            with open_named(path) if inside is None else open_inside(path, inside) as file:
                self.identity = FileIdentity.of(file.fileno())
                self._map = (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    if self.identity.size
                    else None
                )
        except OSError as error:
            raise unreadable(path, error) from error

    @property
    def size(self) -> int:
        return self.identity.size

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Returns fewer than `length` bytes at the end of the file."""
        mapped = self._open()
        return b"" if mapped is None else mapped[offset : offset + length]

    def view(self, offset: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Returns a read-only array on the file. The caller has checked that it fits."""
        mapped = self._open()
        if mapped is None or 0 in shape:
            return np.empty(shape, dtype)
        array: NDArray[Any] = np.ndarray(shape, dtype, buffer=mapped, offset=offset)
        return array

    def rows(self, offset: int, lines: int, row_bytes: int) -> PagedRows:
        """Returns the rows from `offset` on. The caller has checked that they fit."""
        return PagedRows(self._open(), offset, self.view(offset, (lines, row_bytes), np.uint8))

    def close(self) -> None:
        """Drops the map; it is unmapped with the last view on it.

        Never calls `mmap.close`: that would unmap under numpy's views, and reading a view would be
        a segmentation fault.
        """
        self._closed = True
        self._map = None

    def _open(self) -> mmap.mmap | None:
        if self._closed:
            raise ValueError(f"{self.path} was closed")
        return self._map


def unreadable(path: Path, error: OSError) -> BadData | StorageError:
    """Returns the error for a file that could not be opened for reading."""
    if isinstance(error, FileNotFoundError):
        return DataMissing(f"{path}: there is no such file.", hint="Check the path.")
    if isinstance(error, IsADirectoryError):
        return BadData(f"{path} is a folder, not a file.", hint="Check the path.")
    if isinstance(error, PermissionError):
        return BadData(f"{path} cannot be read: permission denied.", hint=f"chmod u+r {path}")
    return StorageError(
        f"{path} could not be read: {error.strerror or error}.",
        hint="Check the disk before you use the file.",
    )


class MappedRows(MappedStoredRows):
    """A contiguous array in a mapped file, aligned or not."""

    def __init__(
        self,
        file: MappedFile,
        name: str,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
        digest: Callable[[], str],
    ) -> None:
        super().__init__(name, str(file.path), shape, dtype)
        self._digest_of = digest
        held = numpy_dtype(dtype)
        self.aligned = offset % held.itemsize == 0
        # Gathers copy bytes and view numbers: numpy.take would copy a misaligned array whole.
        self._rows: PagedRows = file.rows(
            offset, shape[0], math.prod(shape[1:], start=held.itemsize)
        )
        self._array = file.view(offset, shape, held) if self.aligned else None

    def _digest(self) -> str:
        return self._digest_of()

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        as_bytes(into)[...] = self._rows.matrix[start:stop]

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        return None if self._array is None else self._array[start:stop]
