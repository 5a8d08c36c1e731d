"""The usearch graph, and what its library leaves to its callers.

usearch 2.26 returns normally from a save whose last bytes do not fit the disk, takes the width and
type of whatever file it loads, and dies of a damaged one: what was written is measured and read
back, what was loaded is looked at, and `ttf` hashes the files before `load`.

Shapes: Q queries, k answers, D width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from ttf import (
    ArtifactDamaged,
    ConfigError,
    MinerContext,
    StorageError,
    VectorSource,
    exact_search,
    float32_blocks,
    fsync_file,
    require_bank,
    require_memory,
    to_float32,
)
from usearch.index import BatchMatches, Index

from ttf_miner_usearch._cost import memory_bytes
from ttf_miner_usearch.usearch_miner import UsearchOptions, build_threads

Answer: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]

FILE: Final = "index.usearch"
_ADD_ROWS: Final = 8192
_QUERY_TILE: Final = 4096
_SCORED_BYTES: Final = 16 << 20
_LARGEST_F16: Final = 65504.0
_ROOM: Final = "Free some space, or set TTF_HOME to a folder on another disk."


class UsearchMiner:
    """`ttf.Miner` over one `usearch.Index` with inner products."""

    def __init__(self, options: UsearchOptions, context: MinerContext) -> None:
        self._options = options
        self._context = context
        self._index: Index | None = None
        self._source: VectorSource | None = None

    def build(self, source: VectorSource, workdir: Path) -> None:
        index = self._new_index(source)
        for start, rows_ND in float32_blocks(source, _ADD_ROWS):
            self._check_range(rows_ND, start, source)
            ids = np.arange(start, start + len(rows_ND))
            index.add(ids, rows_ND, threads=build_threads(self._context))
        self._index, self._source = index, source

    def search(self, queries: NDArray[np.float32], k: int) -> Answer:
        index, source = self._ready()
        k = min(k, source.shape[0])
        ids_Qk = np.empty((len(queries), k), np.int64)
        scores_Qk = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _QUERY_TILE):
            here = slice(start, start + _QUERY_TILE)
            ids_Qk[here], scores_Qk[here] = self._answer(index, source, queries[here], k)
        return ids_Qk, scores_Qk

    def save(self, path: Path) -> None:
        index, source = self._ready()
        file, expected = path / FILE, index.serialized_length
        try:
            index.save(file)
            with file.open("rb") as written:
                fsync_file(written.fileno())
            size = file.stat().st_size
        except (OSError, RuntimeError) as error:
            raise StorageError(
                f"The usearch index could not be written to {file}: {error}", hint=_ROOM
            ) from error
        if size != expected:
            raise StorageError(
                f"Only {size:,} of {expected:,} bytes of the usearch index were written to {file}. "
                "Probably the disk is full; usearch does not report this error.",
                hint=_ROOM,
            )
        self._read_back(path, source)

    def load(self, path: Path, source: VectorSource) -> None:
        index, file = self._new_index(source), path / FILE
        wanted = (*source.shape, index.dtype)
        try:
            index.load(file)
        except RuntimeError as error:
            raise ArtifactDamaged(
                f"{file} is an incomplete or damaged usearch index: {error}",
                hint="Delete this file: ttf then builds a new index.",
            ) from error
        if (len(index), index.ndim, index.dtype) != wanted:
            raise ArtifactDamaged(
                f"The index {file} belongs to another bank: it has {len(index)} rows of "
                f"{index.ndim} {index.dtype} values, but the bank has {source.shape[0]} rows of "
                f"{source.shape[1]}.",
                hint="Delete this file: ttf then builds a new index.",
            )
        self._index, self._source = index, source

    def close(self) -> None:
        self._index = self._source = None

    def _ready(self) -> tuple[Index, VectorSource]:
        source = require_bank(self._source)
        assert self._index is not None
        return self._index, source

    def _new_index(self, source: VectorSource) -> Index:
        """Empty; raises ConfigError with the figure where the whole would not fit."""
        rows, dim = source.shape
        require_memory(
            memory_bytes(rows, dim, self._options),
            self._context.budget_bytes,
            f"The usearch index of {rows:,} x {dim} vectors",
        )
        return Index(
            ndim=dim,
            metric="ip",
            dtype=self._options.dtype,
            connectivity=self._options.connectivity,
            expansion_add=self._options.expansion_add,
            expansion_search=self._options.expansion_search,
            enable_key_lookups=False,
        )

    def _check_range(self, rows_ND: NDArray[np.float32], start: int, source: VectorSource) -> None:
        """In half precision what is too large becomes infinite, and no query finds it."""
        if self._options.dtype != "f16":
            return
        largest_N = np.abs(rows_ND).max(axis=1)
        if largest_N.max() > _LARGEST_F16:
            raise ConfigError(
                f"{source.name}[{start + int(largest_N.argmax())}] in {source.uri} holds "
                f"{largest_N.max():g}, more than f16 can.",
                hint="Set dtype = 'bf16' for this miner, which is as small and reaches as far as "
                "f32.",
            )

    def _answer(
        self, index: Index, source: VectorSource, queries_QD: NDArray[np.float32], k: int
    ) -> Answer:
        """Of one tile. A query that comes back short has seen all it can reach from where it
        entered (its list never was full), so that looking further would not help: it is scanned."""
        ids_Qk, scores_Qk, short_Q = self._neighbours(index, queries_QD, k)
        if short_Q.any():
            ids_Qk[short_Q], scores_Qk[short_Q] = exact_search(source, queries_QD[short_Q], k)
        if self._options.dtype == "f32":
            return ids_Qk, scores_Qk
        return _rescored(source, queries_QD, ids_Qk)

    def _neighbours(
        self, index: Index, queries_QD: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
        """What the graph finds, and which queries it found fewer than k for."""
        if len(queries_QD) == 1:  # usearch hands out a batch of one in another shape
            ids_Qk, scores_Qk, short_Q = self._neighbours(index, np.repeat(queries_QD, 2, 0), k)
            return ids_Qk[:1], scores_Qk[:1], short_Q[:1]
        found = index.search(np.ascontiguousarray(queries_QD), k, threads=self._context.threads)
        assert isinstance(found, BatchMatches)
        with np.errstate(invalid="ignore"):  # places that stayed empty hold signalling NaN
            scores_Qk = np.subtract(np.float32(1), found.distances, dtype=np.float32)
        return found.keys.astype(np.int64), scores_Qk, found.counts < k

    def _read_back(self, path: Path, source: VectorSource) -> None:
        """From here on the index is the one on disk: two at once might not fit into memory."""
        probe = source.read(0, min(64, source.shape[0]))
        queries = np.ascontiguousarray(to_float32(probe, source.dtype))
        before = self.search(queries, 10)
        self.close()
        try:
            self.load(path, source)
        except ArtifactDamaged as error:
            raise StorageError(
                f"usearch wrote an index that cannot be read again: {error}"
            ) from error
        after = self.search(queries, 10)
        if not (np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])):
            raise StorageError(
                f"{path / FILE} was written and read again, and its answers are different."
            )


def _rescored(
    source: VectorSource, queries_QD: NDArray[np.float32], ids_Qk: NDArray[np.int64]
) -> Answer:
    """The same ids by their products with the bank's own rows, best first."""
    scores_Qk = np.empty(ids_Qk.shape, np.float32)
    step = max(1, _SCORED_BYTES // (4 * max(1, ids_Qk.shape[1] * source.shape[1])))
    for start in range(0, len(ids_Qk), step):
        here = slice(start, start + step)
        stored = source.gather(ids_Qk[here].reshape(-1))
        rows_QkD = to_float32(stored, source.dtype).reshape(*ids_Qk[here].shape, -1)
        scores_Qk[here] = np.matmul(rows_QkD, queries_QD[here, :, None])[..., 0]
    order_Qk = np.argsort(-scores_Qk, axis=1, kind="stable")
    return (
        np.take_along_axis(ids_Qk, order_Qk, axis=1),
        np.take_along_axis(scores_Qk, order_Qk, axis=1),
    )
