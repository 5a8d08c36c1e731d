"""The index: a copy of the bank, searched by comparing everything. YOUR LIBRARY goes here.

Shapes: Q queries, N rows of the bank or of a block of it, D width, K results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from ttf import (
    ArtifactDamaged,
    MinerContext,
    StorageError,
    VectorSource,
    float32_blocks,
    fsync_file,
    require_bank,
    require_memory,
    storage_error,
)

from .plugin import Options, index_bytes

FILE: Final = "rows.npy"
_FEWEST_ROWS: Final = 64
"""Compared at a time, however small the budget is."""


class YourNameMiner:
    """The work; one is made for each bank, in a process of its own."""

    def __init__(self, options: Options, context: MinerContext) -> None:
        self._options = options
        self._context = context
        self._rows_ND: NDArray[np.float32] | None = None

    def build(self, source: VectorSource, workdir: Path) -> None:
        self._require_memory(source)
        rows_ND = np.empty(source.shape, np.float32)
        for first, block_ND in float32_blocks(source, self._block_rows(source.shape[1])):
            # YOUR LIBRARY: index.add(block_ND). The bank is read once, a block at a time: it may
            # be larger than memory, and a block is overwritten by the next one.
            rows_ND[first : first + len(block_ND)] = block_ND
        self._rows_ND = rows_ND

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rows_ND = require_bank(self._rows_ND)
        k = min(k, len(rows_ND))
        ids_QK = np.empty((len(queries), k), np.int64)
        scores_QK = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), self._options.query_rows):
            here = slice(start, start + self._options.query_rows)
            # YOUR LIBRARY: index.search(queries[here], k). Where it answers -1, or fewer than k
            # rows, ask it again for more, or take `ttf.exact_search` for these queries.
            ids_QK[here], scores_QK[here] = self._best(rows_ND, queries[here], k)
        return ids_QK, scores_QK

    def save(self, path: Path) -> None:
        rows_ND = require_bank(self._rows_ND)
        file = path / FILE
        try:
            with file.open("wb") as opened:
                np.save(opened, rows_ND, allow_pickle=False)
                opened.flush()
                fsync_file(opened.fileno())
        except OSError as error:
            raise storage_error(error, str(file)) from error
        self._read_back(file, rows_ND)

    def load(self, path: Path, source: VectorSource) -> None:
        self._require_memory(source)
        rows_ND = _loaded(path / FILE)
        if rows_ND.shape != source.shape or rows_ND.dtype != np.float32:
            raise ArtifactDamaged(
                f"{path / FILE} has the type {rows_ND.dtype} and the shape {rows_ND.shape}, but "
                f"the bank has the shape {source.shape}.",
                hint="Delete this file: ttf then builds a new index.",
            )
        self._rows_ND = rows_ND

    def close(self) -> None:
        self._rows_ND = None

    def _best(
        self, rows_ND: NDArray[np.float32], queries_QD: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best of all rows, block by block; equal scores in the order of the ids."""
        wanted_QD = queries_QD.astype(self._options.sums)
        ids_QK = np.empty((len(queries_QD), 0), np.int64)
        scores_QK = np.empty((len(queries_QD), 0), np.float32)
        block_rows = self._block_rows(rows_ND.shape[1])
        for first in range(0, len(rows_ND), block_rows):
            block_ND = rows_ND[first : first + block_rows].astype(self._options.sums, copy=False)
            # A float32 product gives equal rows scores that differ in the last bit, depending on
            # where they lie in the block; a float64 one that is rounded does not.
            score_QN = (wanted_QD @ block_ND.T).astype(np.float32, copy=False)
            id_QN = np.broadcast_to(np.arange(first, first + len(block_ND)), score_QN.shape)
            ids_QK, scores_QK = _kept(
                np.concatenate([ids_QK, id_QN], axis=1),
                np.concatenate([scores_QK, score_QN], axis=1),
                k,
            )
        best_first_QK = np.argsort(-scores_QK, axis=1, kind="stable")
        return (
            np.take_along_axis(ids_QK, best_first_QK, axis=1),
            np.take_along_axis(scores_QK, best_first_QK, axis=1),
        )

    def _block_rows(self, dim: int) -> int:
        """As many as the option says, or fewer: blocks share the budget with the index."""
        row_bytes = 8 * dim + 48 * self._options.query_rows
        fitting = self._context.budget_bytes // 4 // row_bytes
        return min(self._options.block_rows, max(_FEWEST_ROWS, fitting))

    def _read_back(self, file: Path, rows_ND: NDArray[np.float32]) -> None:
        """Some full disks and network drives are noticed only here."""
        try:
            written_ND = np.load(file, mmap_mode="r", allow_pickle=False)
            step = self._options.block_rows
            whole = written_ND.shape == rows_ND.shape and all(
                np.array_equal(written_ND[start : start + step], rows_ND[start : start + step])
                for start in range(0, len(rows_ND), step)
            )
        except (OSError, ValueError, EOFError):
            whole = False
        if not whole:
            raise StorageError(
                f"{file} was written and read again, and the content is different.",
                hint="Check the disk, or set TTF_HOME to a folder on another disk.",
            )

    def _require_memory(self, source: VectorSource) -> None:
        rows, dim = source.shape
        what = f"The index of {rows:,} x {dim} vectors"
        require_memory(index_bytes(rows, dim), self._context.budget_bytes, what)


def _kept(
    ids: NDArray[np.int64], scores: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Of every line the k best, in the order they were in; of equal ones the first."""
    if scores.shape[1] <= k:
        return ids, scores
    worst_Q1 = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    better, equal = scores > worst_Q1, scores == worst_Q1
    room_Q1 = k - better.sum(axis=1, keepdims=True)
    chosen = better | (equal & (np.cumsum(equal, axis=1) <= room_Q1))
    return ids[chosen].reshape(-1, k), scores[chosen].reshape(-1, k)


def _loaded(file: Path) -> NDArray[np.float32]:
    try:
        rows_ND: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ArtifactDamaged(
            f"{file} is an incomplete or damaged index: {error}",
            hint="Delete this file: ttf then builds a new index.",
        ) from error
    return rows_ND
