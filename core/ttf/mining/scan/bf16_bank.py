"""A bank in bfloat16, with what its rows lost: kept in the cache, or made block by block.

Kept at `<cache>/half/<key>/`, once for all runs; a copy is used only after every byte matched its
hash. The bank itself stays the truth: `full` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress, VectorSource
from ttf.data.vectors import FLOATS, to_float32
from ttf.errors import BadData
from ttf.mining.scan import bf16_copy
from ttf.mining.scan.float32_rows import gather_float32, read_float32
from ttf.mining.scan.rounding import Rounded, rounded

Say = Callable[[str], None]
BLOCK_ROWS = 4096


class HalfBank(Protocol):
    """Safe to call from several threads; close it when done."""

    shape: tuple[int, int]
    kept: bool
    """The bfloat16 copy lies on the disk: reading it costs half of reading the bank."""

    def half(self, start: int, stop: int) -> torch.Tensor:
        """Rows in bfloat16, nearest even; to be read only, it may be the file itself."""
        ...

    def block(self, start: int, stop: int) -> Rounded:
        """The same with the bounds of these rows."""
        ...

    def full(self, start: int, stop: int) -> torch.Tensor:
        """Rows in float32, as the bank has them, in memory of their own."""
        ...

    def rows(
        self, ids: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Some rows in float32, in `out` where that helps; not looked at, unlike those of the other
        methods."""
        ...

    def some(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Some rows in bfloat16."""
        ...

    @property
    def norms(self) -> NDArray[np.float32]:
        """The length of every row, never too small. Without a kept copy the first call reads the
        bank."""
        ...

    @property
    def residuals(self) -> NDArray[np.float32]:
        """The length of what bfloat16 cut off every row, never too small; as with `norms`."""
        ...

    def close(self) -> None:
        """Closes the copy; the source is the caller's."""
        ...


def open_half(
    source: VectorSource, cache: Path | None, say: Say, *, progress: Progress | None = None
) -> HalfBank:
    """The bank's bfloat16 copy: from `cache`, or made and kept there, or, without a cache or where
    it cannot be kept, made on the fly with the memory of a block.

    `progress` counts rows while a copy is made. Raises BadData where a row is not finite.
    """
    if source.dtype not in FLOATS or len(source.shape) != 2:
        raise BadData(
            f"{source.name} in {source.uri} is {source.dtype} {source.shape}; it must be vectors, "
            "(rows, dim), float32, float16 or bfloat16."
        )
    if cache is None:
        return FlyingHalf(source)
    files = bf16_copy.ready(source, cache, say, progress)
    return FlyingHalf(source) if files is None else KeptHalf(source, files)


class _Full:
    """What both read from the bank itself."""

    def __init__(self, source: VectorSource) -> None:
        self._source = source
        self.shape = (source.shape[0], source.shape[1])

    def full(self, start: int, stop: int) -> torch.Tensor:
        return torch.from_numpy(read_float32(self._source, start, stop))

    def rows(
        self, ids: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        if self._source.dtype == "float32":
            return np.ascontiguousarray(self._source.gather(ids, out))
        stored = self._source.gather(ids)
        into = np.empty(stored.shape, np.float32) if out is None else out
        if self._source.dtype == "float16":
            torch.from_numpy(into).copy_(torch.from_numpy(stored))  # twenty times numpy's speed
        else:
            into[:] = to_float32(stored, self._source.dtype)
        return into


class KeptHalf(_Full):
    """Reads the copy in the cache, mapped."""

    kept = True

    def __init__(self, source: VectorSource, files: bf16_copy.Files) -> None:
        super().__init__(source)
        self._files = files
        self.norms = files.norms
        self.residuals = files.residuals

    def half(self, start: int, stop: int) -> torch.Tensor:
        return torch.from_numpy(self._files.bits[start:stop]).view(torch.bfloat16)

    def block(self, start: int, stop: int) -> Rounded:
        return Rounded(
            half=self.half(start, stop),
            norms=self.norms[start:stop],
            residuals=self.residuals[start:stop],
        )

    def some(self, ids: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._files.bits[ids]).view(torch.bfloat16)

    def close(self) -> None:
        self._files.close()


class FlyingHalf(_Full):
    """Rounds what is asked for, each time."""

    kept = False

    def __init__(self, source: VectorSource) -> None:
        super().__init__(source)
        self._bounds: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    def half(self, start: int, stop: int) -> torch.Tensor:
        return self.block(start, stop).half

    def block(self, start: int, stop: int) -> Rounded:
        return rounded(self.full(start, stop))

    def some(self, ids: NDArray[np.int64]) -> torch.Tensor:
        return rounded(torch.from_numpy(gather_float32(self._source, ids))).half

    @property
    def norms(self) -> NDArray[np.float32]:
        return self._all_bounds()[0]

    @property
    def residuals(self) -> NDArray[np.float32]:
        return self._all_bounds()[1]

    def _all_bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self._bounds is None:
            norms, residuals = (np.empty(self.shape[0], np.float32) for _ in range(2))
            for start in range(0, self.shape[0], BLOCK_ROWS):
                stop = min(start + BLOCK_ROWS, self.shape[0])
                block = self.block(start, stop)
                norms[start:stop], residuals[start:stop] = block.norms, block.residuals
            self._bounds = norms, residuals
        return self._bounds

    def close(self) -> None:
        """Nothing is held."""
