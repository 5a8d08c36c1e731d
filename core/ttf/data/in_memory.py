"""A bank in memory, as any other source of vectors; it counts what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType


@dataclass
class MemorySource:
    """A `VectorSource` in memory; `largest_read` says how many rows were asked for at once."""

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
