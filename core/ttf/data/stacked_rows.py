"""Several sources of equal width seen as one, row after row: Y_train and Y_val as a bank."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, VectorSource
from ttf.data.vectors import checked_ids, checked_out, checked_span, on_disk, will_need


class StackedRows:
    """The rows of `parts` in order; reads and gathers split at the seams."""

    def __init__(self, parts: Sequence[VectorSource]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.uri = parts[0].uri
        self._starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = (int(self._starts[-1]), *parts[0].shape[1:])
        self.dtype: DType = parts[0].dtype

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for index, part in enumerate(self.parts):
            here = np.flatnonzero(owner == index)
            if here.size:
                into[here] = part.gather(rows[here] - self._starts[index])
        return into

    def will_need(self, ids: NDArray[np.int64]) -> None:
        rows = checked_ids(ids, self.shape[0], self.name)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for index, part in enumerate(self.parts):
            here = np.flatnonzero(owner == index)
            if here.size:
                will_need(part, rows[here] - self._starts[index])

    @property
    def on_disk(self) -> bool:
        return any(on_disk(part) for part in self.parts)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        into = checked_out(out, (stop - start, *self.shape[1:]), self.dtype, self.name)
        for index, part in enumerate(self.parts):
            low = max(start, int(self._starts[index]))
            high = min(stop, int(self._starts[index + 1]))
            if low < high:
                offset = int(self._starts[index])
                into[low - start : high - start] = part.read(low - offset, high - offset)
        return into

    def owner_of(self, row: int) -> tuple[VectorSource, int]:
        """The part that holds a row, and the row's number there."""
        index = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.parts[index], row - int(self._starts[index])

    def fingerprint(self) -> str:
        joined = "+".join(part.fingerprint() for part in self.parts)
        return hashlib.blake2b(joined.encode(), digest_size=16).hexdigest()
