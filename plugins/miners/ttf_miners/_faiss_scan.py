"""The flat search of faiss over blocks of the bank: exact, and no copy of the bank is kept."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from ttf import VectorSource, exact_search, float32_blocks
from ttf_miners._tiled_miner import Answer, TiledMiner

# faiss breaks ties as they come; asking for a few more shows whether one was cut off at the end.
_SPARE = 8
_MAX_BLOCK = 65536


class FlatScan(TiledMiner):
    def build(self, source: VectorSource, workdir: Path) -> None:
        self._source = source

    def save(self, path: Path) -> None:
        """Does nothing: the bank is the index."""

    def load(self, path: Path, source: VectorSource) -> None:
        self._source = source

    def _answer(self, source: VectorSource, queries: NDArray[np.float32], k: int) -> Answer:
        faiss.omp_set_num_threads(self._context.threads)
        ids = np.empty((len(queries), 0), np.int64)
        scores = np.empty((len(queries), 0), np.float32)
        cut = np.full(len(queries), -np.inf, np.float32)
        for start, block_ND in float32_blocks(source, self._block_rows(source.shape[1])):
            wide = min(k + _SPARE, len(block_ND))
            found, rows = faiss.knn(queries, block_ND, wide, metric=faiss.METRIC_INNER_PRODUCT)
            if wide < len(block_ND):
                np.maximum(cut, found[:, -1], out=cut)
            ids = np.concatenate([ids, rows + start], axis=1)
            scores = np.concatenate([scores, found], axis=1)
            best = np.lexsort((ids, -scores), axis=1)[:, :k]
            ids = np.take_along_axis(ids, best, axis=1)
            scores = np.take_along_axis(scores, best, axis=1)
        # Where a block's list ended at or above the final k-th score, equals may be missing.
        unsure = np.flatnonzero(cut >= scores[:, -1])
        if unsure.size:
            ids[unsure], scores[unsure] = exact_search(source, queries[unsure], k)
        return ids, scores

    def _block_rows(self, dim: int) -> int:
        # Half the budget: larger blocks mean larger products and fewer merges.
        return int(max(1024, min(_MAX_BLOCK, self._context.budget_bytes // (2 * 4 * dim))))
