"""Vectors in memory, as sources like any other: what a caller gives, and banks of tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import checked_ids, checked_out, checked_span
from ttf.errors import BadData


class GivenRows:
    """An array (N, D) or (N, L, D) of finite numbers, as float32."""

    def __init__(self, array: NDArray[Any], name: str) -> None:
        if array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
            raise BadData(
                f"The {name} given are {array.dtype} {array.shape}; they must be numbers of "
                "shape (N, D) or (N, L, D).",
                hint="One vector is an array of one row: x[None].",
            )
        self._array = np.ascontiguousarray(array, dtype=np.float32)
        wrong = np.flatnonzero(~np.isfinite(self._array).all(axis=tuple(range(1, array.ndim))))
        if wrong.size:
            raise BadData(
                f"Row {wrong[0]} of the {name} given is not finite (NaN or infinite; "
                f"{wrong.size:,} of {len(array):,} rows)."
            )
        self.name = name
        self.uri = "the array given"
        self.shape: tuple[int, ...] = self._array.shape
        self.dtype: DType = "float32"

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        into[:] = self._array[rows]
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        into = checked_out(out, (stop - start, *self.shape[1:]), self.dtype, self.name)
        into[:] = self._array[start:stop]
        return into

    def fingerprint(self) -> str:
        return hashlib.sha256(self._array.data).hexdigest()[:16]


@dataclass
class MemorySource:
    """Rows as they are, unchecked; `largest_read` says how many were asked for at once."""

    rows: NDArray[Any]
    dtype: DType = "float32"
    name: str = "vectors"
    uri: str = "memory"
    largest_read: int = 0
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.shape = self.rows.shape

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        found = self.rows[ids]
        if out is None:
            return found
        out[:] = found
        return out

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        self.largest_read = max(self.largest_read, stop - start)
        if out is None:
            view = self.rows[start:stop]
            view.flags.writeable = False
            return view
        out[:] = self.rows[start:stop]
        return out

    def fingerprint(self) -> str:
        return "memory"
