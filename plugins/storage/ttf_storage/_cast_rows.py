"""Rows of numpy arrays in other types or orders than the contract's, converted as they are read.

NumPy, pandas and scikit-learn give float64, often in Fortran order. A gather copies the rows from
the map as they lie and casts them, some at a time: memory never holds the array a second time.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import DType, checked_ids, numpy_dtype
from ttf_storage._mapped import MappedFile
from ttf_storage._npy_header import NpyHeader
from ttf_storage._stored_rows import StoredRows

_PIECE_BYTES: Final = 4 << 20


class _Converted(StoredRows):
    """Values beyond the range of the new type become infinite."""

    mappable = True

    def __init__(
        self,
        file: MappedFile,
        name: str,
        offset: int,
        header: NpyHeader,
        dtype: DType,
        digest: Callable[[], str],
    ) -> None:
        super().__init__(name, str(file.path), header.shape, dtype)
        self._digest_of = digest
        self._held = header.dtype
        self.held = "" if header.dtype == numpy_dtype(dtype) else str(header.dtype)
        self._row_bytes = math.prod(header.shape[1:], start=header.dtype.itemsize)
        self._map(file, offset)

    @abstractmethod
    def _map(self, file: MappedFile, offset: int) -> None:
        """Finds the array in its file. Called once."""

    @abstractmethod
    def _bytes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns a copy of these rows as they are stored."""

    def _digest(self) -> str:
        return self._digest_of()

    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        step = max(1, _PIECE_BYTES // max(1, self._row_bytes))
        for start in range(0, len(rows), step):
            held = self._bytes_of(rows[start : start + step])
            part = into[start : start + step]
            with np.errstate(over="ignore"):
                part[...] = held.reshape(-1).view(self._held).reshape(part.shape)

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        self._take(np.arange(start, stop), into)


class CastRows(_Converted):
    """An array in C order."""

    def _map(self, file: MappedFile, offset: int) -> None:
        self._rows = file.rows(offset, self.shape[0], self._row_bytes)

    @property
    def on_disk(self) -> bool:
        return self._rows.on_disk

    def will_need(self, ids: NDArray[np.int64]) -> None:
        self._rows.will_need(checked_ids(ids, self.shape[0], self.name))

    def _bytes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        held = np.empty((len(rows), self._row_bytes), np.uint8)
        self._rows.take(rows, held)
        return held


class TurnedRows(_Converted):
    """An array in Fortran order: the values of a row lie apart, each on a page of its own."""

    def _map(self, file: MappedFile, offset: int) -> None:
        # As bytes: from a misaligned array of numbers, numpy would copy all of it first.
        turned = file.view(offset, (*self.shape[::-1], self._held.itemsize), np.uint8)
        last = len(self.shape)
        self._array = turned.transpose(*range(last - 1, -1, -1), last)

    def _bytes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._array[rows])
