"""A temporary file next to its target. It replaces the target once it is complete and durable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf import DType, fsync_dir, fsync_file, numpy_dtype, storage_error, temporary_file


class AtomicFile:
    """Appends bytes. Every failure removes the file and raises StorageError."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.position = 0
        self._published = False
        try:
            self._temp = temporary_file(target)
        except OSError as error:
            raise storage_error(error, str(target)) from error

    def append(self, data: bytes | memoryview) -> None:
        left = memoryview(data).cast("B")
        try:
            while left:
                written = os.write(self._temp.fd, left)
                self.position += written
                left = left[written:]
        except OSError as error:
            raise self._failed(error) from error

    def patch(self, data: bytes, offset: int) -> None:
        """Overwrites bytes written earlier."""
        try:
            os.pwrite(self._temp.fd, data, offset)
        except OSError as error:
            raise self._failed(error) from error

    def publish(self) -> None:
        try:
            fsync_file(self._temp.fd)
            self._temp.path.replace(self.target)
            self._published = True
            self._temp.close()
            fsync_dir(self.target.parent)
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Removes the file, also if `publish` failed halfway. Does nothing after `publish`."""
        if not self._published:
            self._temp.remove()

    def _failed(self, error: OSError) -> Exception:
        self.discard()
        return storage_error(error, str(self.target))


class RowsWriter:
    """Base of the array writers."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        self.name = name
        self.shape = shape
        self.dtype: DType = dtype
        self.rows_done = 0

    def checked(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Returns contiguous rows. Raises ValueError if they do not fit this array."""
        if rows.dtype != numpy_dtype(self.dtype) or rows.shape[1:] != self.shape[1:]:
            raise ValueError(
                f"the array {self.name!r} needs rows of the type {self.dtype} and the shape "
                f"{self.shape[1:]}, not {rows.dtype} {rows.shape}"
            )
        if self.rows_done + len(rows) > self.shape[0]:
            raise ValueError(
                f"the array {self.name!r} was created with {self.shape[0]} rows, but got more"
            )
        return np.ascontiguousarray(rows)

    def check_complete(self) -> None:
        if self.rows_done != self.shape[0]:
            raise ValueError(
                f"the array {self.name!r} has {self.rows_done} of {self.shape[0]} rows"
            )
