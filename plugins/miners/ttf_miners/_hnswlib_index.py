"""The hnswlib graph with the checks that the library lacks.

hnswlib 0.8 returns normally if the disk is full during a save, and crashes if it loads a damaged
file. So the written file is measured and read back, and callers hash files before `load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import hnswlib
import numpy as np
from numpy.typing import NDArray

from ttf import (
    ArtifactDamaged,
    MinerFailed,
    StorageError,
    VectorSource,
    derived_seed,
    exact_search,
    float32_blocks,
    fsync_file,
    to_float32,
)
from ttf_miners._tiled_miner import Answer, TiledMiner, not_written, require_room
from ttf_miners.hnswlib_miner import index_bytes

FILE: Final = "index.hnswlib"
_ADD_ROWS = 8192
_WIDENINGS = 3


class HnswlibMiner(TiledMiner):
    def build(self, source: VectorSource, workdir: Path) -> None:
        self._require_room(source)
        rows, dim = source.shape
        index = hnswlib.Index(space="ip", dim=dim)
        index.init_index(
            max_elements=rows,
            ef_construction=self._options.ef_construction,
            M=self._options.M,
            random_seed=derived_seed(self._context.seed, "hnswlib"),
        )
        # Which of two threads links its row first decides the graph.
        threads = 1 if self._context.deterministic else self._context.threads
        for start, block_ND in float32_blocks(source, _ADD_ROWS):
            ids = np.arange(start, start + len(block_ND))
            index.add_items(block_ND, ids, num_threads=threads)
        self._index = index
        self._source = source

    def save(self, path: Path) -> None:
        file = path / FILE
        expected = self._index.index_file_size()
        try:
            self._index.save_index(str(file))
            with file.open("rb") as handle:
                fsync_file(handle.fileno())
            written = file.stat().st_size
        except (OSError, RuntimeError) as error:
            raise not_written("hnswlib index", file, error) from error
        if written != expected:
            raise StorageError(
                f"Only {written:,} of {expected:,} bytes of the hnswlib index were written to "
                f"{file}. Probably the disk is full; hnswlib does not report this error.",
                hint="Free some space, or set TTF_HOME to a folder on another disk.",
            )
        self._read_back(path)

    def load(self, path: Path, source: VectorSource) -> None:
        self._require_room(source)
        rows, dim = source.shape
        index = hnswlib.Index(space="ip", dim=dim)
        try:
            index.load_index(str(path / FILE), max_elements=rows)
        except RuntimeError as error:
            raise ArtifactDamaged(
                f"{path / FILE} is an incomplete or damaged hnswlib index: {error}",
                hint="Delete this file: ttf then builds a new index.",
            ) from error
        if index.get_current_count() != rows:
            raise ArtifactDamaged(
                f"The index {path / FILE} has {index.get_current_count()} rows, but the bank has "
                f"{rows}.",
                hint="Delete this file: ttf then builds a new index.",
            )
        self._index = index
        self._source = source

    def _read_back(self, path: Path) -> None:
        # Replaces the index in memory by the saved one: two at once might not fit into memory.
        assert self._source is not None
        source = self._source
        probe = source.read(0, min(64, source.shape[0]))
        queries = np.ascontiguousarray(to_float32(probe, source.dtype))
        before = self.search(queries, 10)
        self.close()
        try:
            self.load(path, source)
            after = self.search(queries, 10)
        except ArtifactDamaged as error:
            raise MinerFailed(
                "hnswlib", f"hnswlib wrote an index that cannot be read again: {error}"
            ) from error
        same = np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])
        if not same:
            raise MinerFailed(
                "hnswlib",
                f"{path / FILE} was written and read again, and its answers are different.",
            )

    def _require_room(self, source: VectorSource) -> None:
        rows, dim = source.shape
        size = index_bytes(rows, dim, self._options.M)
        require_room(self._context, source, size, "hnswlib index")

    def _answer(self, source: VectorSource, queries: NDArray[np.float32], k: int) -> Answer:
        # hnswlib refuses the whole batch if it cannot find k for one query.
        for times in range(_WIDENINGS):
            self._index.set_ef(max(self._options.ef_search, k) << times)
            try:
                found, distances = self._index.knn_query(
                    queries, k=k, num_threads=self._context.threads
                )
            except RuntimeError as error:
                if "contiguous 2D array" not in str(error):
                    raise
                continue
            return found.astype(np.int64), np.float32(1) - distances
        return self._answer_halves(source, queries, k)

    def _answer_halves(self, source: VectorSource, queries: NDArray[np.float32], k: int) -> Answer:
        """Splits the batch until the queries with too few answers are single; these are scanned."""
        if len(queries) == 1:
            return exact_search(source, queries, k)
        half = len(queries) // 2
        first = self._answer(source, queries[:half], k)
        second = self._answer(source, queries[half:], k)
        return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
