"""faiss indexes that are built once and saved: a graph (HNSW) and inverted lists (IVF).

faiss marks missing answers with -1. Such searches are repeated with wider parameters, and then
scanned exactly: -1 never leaves this file.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from ttf import (
    ArtifactDamaged,
    StorageError,
    VectorSource,
    derived_seed,
    exact_search,
    float32_blocks,
    fsync_file,
    gather_float32,
    sampled_rows,
)
from ttf_miners._tiled_miner import Answer, TiledMiner, not_written, require_room
from ttf_miners.faiss_miner import (
    KMEANS_ROUNDS,
    TRAIN_ROWS_PER_LIST,
    hnsw_bytes,
    ivf_bytes,
    num_lists,
)

FILE: Final = "index.faiss"
_WIDENINGS = 3
# Fixed: in what portions rows are added decides how faiss links them.
_ADD_ROWS = 8192


class _FaissIndex(TiledMiner):
    """The common part; a subclass creates and fills its index and sets the search parameters."""

    def build(self, source: VectorSource, workdir: Path) -> None:
        self._require_room(source)
        self._index = self._new_index(source)
        self._source = source

    def save(self, path: Path) -> None:
        # Hashed while it is written, then read back. faiss itself does not fsync.
        digest = hashlib.sha256()
        file = path / FILE
        try:
            with file.open("wb") as handle:

                def write(chunk: bytes) -> int:
                    digest.update(chunk)
                    return handle.write(chunk)

                faiss.write_index(self._index, faiss.PyCallbackIOWriter(write, 1 << 20))
                handle.flush()
                fsync_file(handle.fileno())
        except (OSError, RuntimeError) as error:
            raise not_written("faiss index", file, error) from error
        with file.open("rb") as written:
            found = hashlib.file_digest(written, "sha256")
        if found.digest() != digest.digest():
            raise StorageError(
                f"{file} was written and read again, and the content is different.",
                hint="Check the disk before you use it again.",
            )

    def load(self, path: Path, source: VectorSource) -> None:
        self._require_room(source)
        file = path / FILE
        faiss.set_deserialization_vector_byte_limit(file.stat().st_size)
        try:
            index = faiss.read_index(str(file))
        except RuntimeError as error:
            raise ArtifactDamaged(
                f"{file} is an incomplete or damaged faiss index: {error}",
                hint="Delete this file: ttf then builds a new index.",
            ) from error
        if (index.ntotal, index.d) != tuple(source.shape):
            raise ArtifactDamaged(
                f"The index {file} has {index.ntotal} rows of width {index.d}, but the bank has "
                f"{source.shape[0]} rows of width {source.shape[1]}.",
                hint="Delete this file: ttf then builds a new index.",
            )
        self._index = index
        self._source = source

    def _answer(self, source: VectorSource, queries: NDArray[np.float32], k: int) -> Answer:
        faiss.omp_set_num_threads(self._context.threads)
        short = np.arange(len(queries))
        ids = np.full((len(queries), k), -1, np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for parameters in self._wider_searches(k):
            scores[short], ids[short] = self._index.search(queries[short], k, params=parameters)
            short = np.flatnonzero((ids < 0).any(axis=1))
            if not short.size:
                return ids, scores
        ids[short], scores[short] = exact_search(source, queries[short], k)
        return ids, scores

    def _require_room(self, source: VectorSource) -> None:
        what = f"faiss index ({self._options.kind})"
        require_room(self._context, source, self._size(source), what)

    @abstractmethod
    def _size(self, source: VectorSource) -> int:
        """Bytes of the whole index in memory."""

    @abstractmethod
    def _new_index(self, source: VectorSource) -> Any:
        """Returns a new index with every row."""

    @abstractmethod
    def _wider_searches(self, k: int) -> Iterator[Any]:
        """Yields search parameters, each wider than the one before."""


class HnswIndex(_FaissIndex):
    def _size(self, source: VectorSource) -> int:
        rows, dim = source.shape
        return hnsw_bytes(rows, dim, self._options.M)

    def _new_index(self, source: VectorSource) -> Any:
        # Which of two threads links its row first decides the graph.
        faiss.omp_set_num_threads(1 if self._context.deterministic else self._context.threads)
        index = faiss.IndexHNSWFlat(source.shape[1], self._options.M, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self._options.ef_construction
        index.hnsw.rng = faiss.RandomGenerator(derived_seed(self._context.seed, "faiss"))
        for _, block_ND in float32_blocks(source, _ADD_ROWS):
            index.add(block_ND)
        return index

    def _wider_searches(self, k: int) -> Iterator[Any]:
        for times in range(_WIDENINGS):
            width = max(self._options.ef_search, k) << times
            yield faiss.SearchParametersHNSW(efSearch=width)


class IvfIndex(_FaissIndex):
    def _size(self, source: VectorSource) -> int:
        rows, dim = source.shape
        return ivf_bytes(rows, dim)

    def _new_index(self, source: VectorSource) -> Any:
        faiss.omp_set_num_threads(self._context.threads)
        rows, dim = source.shape
        lists = num_lists(rows, self._options.nlist)
        coarse = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(coarse, dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = derived_seed(self._context.seed, "faiss")
        index.cp.niter = KMEANS_ROUNDS
        index.cp.min_points_per_centroid = 1
        index.cp.max_points_per_centroid = TRAIN_ROWS_PER_LIST
        index.train(self._sample(source, TRAIN_ROWS_PER_LIST * lists))
        for _, block_ND in float32_blocks(source, _ADD_ROWS):
            index.add(block_ND)
        return index

    def _sample(self, source: VectorSource, wanted: int) -> NDArray[np.float32]:
        """Returns rows to train the lists with, within a quarter of the budget. Equal seed, equal
        rows."""
        rows, dim = source.shape
        count = min(rows, wanted, max(1024, self._context.budget_bytes // (16 * dim)))
        chosen = sampled_rows(rows, count, self._context.seed, "ivf sample")
        return gather_float32(source, chosen)

    def _wider_searches(self, k: int) -> Iterator[Any]:
        width = self._options.nprobe
        lists = self._index.nlist
        while width < lists:
            yield faiss.SearchParametersIVF(nprobe=width)
            width *= 2
        yield faiss.SearchParametersIVF(nprobe=lists)
