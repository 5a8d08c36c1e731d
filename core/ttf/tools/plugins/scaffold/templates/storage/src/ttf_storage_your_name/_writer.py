"""Writing: a folder beside the target, renamed into place once it is whole and on the disk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ttf import (
    DType,
    StorageError,
    fsync_dir,
    fsync_file,
    numpy_dtype,
    remove_if_possible,
    storage_error,
    temporary_folder,
)

from ._layout import TABLE, Entry, array_file, new_digest, table_bytes


class ArrayFile:
    """One array, written row by row. YOUR LIBRARY goes here."""

    def __init__(self, file: Path, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        self._name, self._shape, self._dtype = name, tuple(int(n) for n in shape), dtype
        self._rows_done = 0
        self._digest = new_digest()
        self._file = file.open("wb")
        header = {
            "descr": np.lib.format.dtype_to_descr(numpy_dtype(dtype)),
            "fortran_order": False,
            "shape": self._shape,
        }
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: NDArray[Any]) -> None:
        if rows.dtype != numpy_dtype(self._dtype) or rows.shape[1:] != self._shape[1:]:
            raise ValueError(
                f"the array {self._name!r} needs rows of the type {self._dtype} and the shape "
                f"{self._shape[1:]}, not {rows.dtype} {rows.shape}"
            )
        if self._rows_done + len(rows) > self._shape[0]:
            raise ValueError(
                f"the array {self._name!r} was created with {self._shape[0]} rows, but got more"
            )
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        self._digest.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise storage_error(error, self._file.name) from error
        self._rows_done += len(rows)

    def finish(self) -> Entry:
        """On the disk in full; ValueError where rows are missing."""
        if self._rows_done != self._shape[0]:
            raise ValueError(
                f"the array {self._name!r} has {self._rows_done} of {self._shape[0]} rows"
            )
        self._file.flush()
        fsync_file(self._file.fileno())
        self._file.close()
        return Entry(name=self._name, dtype=self._dtype, digest=self._digest.hexdigest())

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # what is buffered does not fit the disk either
            self._file.close()


class YourNameWriter:
    """Nothing is seen at the target before `commit`; every failure leaves what was there."""

    def __init__(self, uri: str) -> None:
        self._target = Path(uri)
        self._entries: list[Entry] = []
        self._array: ArrayFile | None = None
        self._committed = False
        try:
            # Under a random name, and locked: what a killed process left is removed by the next.
            self._folder = temporary_folder(self._target)
        except OSError as error:
            raise storage_error(error, uri) from error
        self._temp = self._folder.path
        self._old = self._target.with_name(f"{self._temp.name}-old")

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ArrayFile:
        try:
            self._finish_array()
            if name in (entry.name for entry in self._entries):
                raise ValueError(f"the array {name!r} was already written")
            file = array_file(self._temp, len(self._entries))
            self._array = ArrayFile(file, name, shape, dtype)
        except OSError as error:
            raise self._failed(error) from error
        return self._array

    def commit(self) -> None:
        try:
            self._finish_array()
            with (self._temp / TABLE).open("wb") as file:
                file.write(table_bytes(self._entries))
                file.flush()
                fsync_file(file.fileno())
            fsync_dir(self._temp)
            if self._target.exists():
                self._target.rename(self._old)
            self._temp.rename(self._target)
            self._committed = True
            self._folder.close()
            fsync_dir(self._target.parent)
        except OSError as error:
            raise self._failed(error) from error
        remove_if_possible(self._old, self._old.parent)

    def abort(self) -> None:
        """May be called at any time, in the middle of a commit as well."""
        if self._array is not None:
            self._array.discard()
        if not self._committed:
            self._folder.remove()
            if self._old.exists() and not self._target.exists():
                self._old.rename(self._target)
        remove_if_possible(self._old, self._old.parent)

    def _finish_array(self) -> None:
        if self._array is not None:
            self._entries.append(self._array.finish())
            self._array = None

    def _failed(self, error: OSError) -> StorageError:
        self.abort()
        return storage_error(error, str(self._target))
