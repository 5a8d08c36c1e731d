"""How one row lies in memory and on disk: its values, the optimizer's state, two counters.

A record is a whole number of 64-byte units of float32 words. The last two words are int32: the steps
that the optimizer has done for the row, and whether the row was ever written. A file that was never
written reads as zeros, so a row that nobody has touched is recognised, and has its initial values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.order import hash64, key

UNIT: Final = 64
_WORDS_PER_UNIT: Final = UNIT // 4
_COUNTERS: Final = 2
_FRESH_AT_ONCE: Final = 1 << 20

Records = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Layout:
    dim: int
    state: int  # Words of the optimizer.
    seed: int
    zeros: bool = False  # Rows that were never written are zero, not random.

    @property
    def units(self) -> int:
        return -(-(self.dim + self.state + _COUNTERS) // _WORDS_PER_UNIT)

    @property
    def words(self) -> int:
        return self.units * _WORDS_PER_UNIT

    @property
    def size(self) -> int:
        """Bytes."""
        return self.units * UNIT

    def values(self, records: torch.Tensor) -> torch.Tensor:
        return records[:, : self.dim]

    def state_of(self, records: torch.Tensor) -> torch.Tensor:
        return records[:, self.dim : self.dim + self.state]

    def steps(self, records: torch.Tensor) -> torch.Tensor:
        return records.view(torch.int32)[:, self.dim + self.state]

    def mark_written(self, records: torch.Tensor) -> None:
        records.view(torch.int32)[:, self.dim + self.state + 1] = 1

    def fill_fresh(self, ids: NDArray[np.int64], records: Records) -> None:
        """Gives the rows that were never written their initial values."""
        if self.zeros:
            return  # as a file reads that was never written
        fresh = np.flatnonzero(records.view(np.int32)[:, self.dim + self.state + 1] == 0)
        rows = max(1, _FRESH_AT_ONCE // self.dim)
        for start in range(0, len(fresh), rows):
            here = fresh[start : start + rows]
            records[here, : self.dim] = initial(ids[here], self.dim, self.seed)


def initial(ids: NDArray[np.int64], dim: int, seed: int) -> Records:
    """Uniform values of variance 1 / dim; a pure function of the seed, the row and the column, with
    the same bits on every machine."""
    halves = -(-dim // 2)
    cells = ids[:, None] * np.int64(halves) + np.arange(halves, dtype=np.int64)
    bits = hash64(cells, key(seed, "embedding")).view(np.uint32).reshape(len(ids), 2 * halves)
    # 24 bits are exact in float32, and so is their distance from the middle.
    centred = (bits[:, :dim] >> np.uint32(8)).astype(np.float32) - np.float32(2**23)
    return np.asarray(centred * np.float32(2.0**-23 * np.sqrt(3.0 / dim)))
