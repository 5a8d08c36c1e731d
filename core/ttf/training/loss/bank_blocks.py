"""The bank as blocks for the loss: float32 rows from storage, or a bfloat16 copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.vectors import UnitRows, row_norms, seen_as_writable, to_float32
from ttf.mining.scan.bf16_bank import HalfBank, open_half
from ttf.training.loss.infonce import Block

# Logits of 512 queries and a block of 768-wide documents fit in a shared cache together.
BLOCK_ROWS = 2048
# A row whose length is this close to one was normalised by the file's author.
_UNIT = np.float32(3e-7)

# (ids, vectors): raises BadData for the first that is not finite.
Blame = Callable[[NDArray[np.int64], NDArray[np.float32]], None]


class Blocks(Protocol):
    """Documents in order; the same documents, in blocks of the same size, every time."""

    def __call__(self, device: torch.device) -> Iterator[Block]: ...


class StoredBlocks:
    """Rows of a source in float32, scaled to length one if the source is a unit-length view.

    The first pass computes the rows' lengths and raises for numbers that are not finite. Later
    passes divide by these lengths; rows that have length one already are not changed unless
    `always`.
    """

    def __init__(self, source: VectorSource, blame: Blame, *, always: bool = False) -> None:
        self._unit = isinstance(source, UnitRows)
        self._source = source.source if isinstance(source, UnitRows) else source
        self._blame = blame
        self._always = always
        self._lengths_M = np.empty(source.shape[0], np.float32)
        self._as_it_is: dict[int, bool] = {}

    def __call__(self, device: torch.device) -> Iterator[Block]:
        rows = self._source.shape[0]
        scratch_ND = torch.empty(min(BLOCK_ROWS, rows), *self._source.shape[1:])
        for start in range(0, rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, rows)
            wide = to_float32(self._source.read(start, stop), self._source.dtype)
            if start not in self._as_it_is:
                self._measure(start, wide)
            block_ND = torch.from_numpy(seen_as_writable(wide))
            if self._unit and not self._as_it_is[start]:
                lengths_N1 = torch.from_numpy(self._lengths_M[start:stop, None])
                block_ND = torch.div(block_ND, lengths_N1, out=scratch_ND[: stop - start])
            yield start, block_ND.to(device)

    def _measure(self, start: int, wide: NDArray[np.float32]) -> None:
        lengths_N = row_norms(wide)
        if not np.isfinite(lengths_N).all():
            self._blame(np.arange(start, start + len(wide), dtype=np.int64), wide)
        whole = not self._always and bool((np.abs(lengths_N - 1) <= _UNIT).all())
        # a row of zeros stays one
        self._lengths_M[start : start + len(wide)] = np.where(lengths_N > 0, lengths_N, 1)
        self._as_it_is[start] = whole


class HalfBlocks:
    """The same rows rounded to bfloat16: from a copy in the cache, or rounded when read."""

    def __init__(
        self,
        source: VectorSource,
        blame: Blame,
        cache: Path | None,
        say: Callable[[str], None],
        beat: Callable[[], None],
    ) -> None:
        """Makes the copy if there is none yet; a disk without room for it changes no number."""
        self._rows = source.shape[0]
        self._kept: HalfBank | None = None
        if cache is not None:
            bank = open_half(source, cache, say, progress=lambda done, total: beat())
            self._kept = bank if bank.kept else None
        self._stored = StoredBlocks(source, blame, always=True)

    def __call__(self, device: torch.device) -> Iterator[Block]:
        if self._kept is None:
            for start, block_ND in self._stored(device):
                yield start, block_ND.bfloat16()
            return
        for start in range(0, self._rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, self._rows)
            yield start, self._kept.half(start, stop).to(device)
