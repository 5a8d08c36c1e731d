"""The last resort: every row of the bank scored, for queries whose best rows are too alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ttf.scan.half import HalfBank
from ttf.scan.scores import pair_scores

_BLOCK_ROWS = 2048


def scan_one_by_one(
    bank: HalfBank, queries: NDArray[np.float32], k: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows of each query, by definition; as slow as the memory is."""
    best = [_Best(query, k) for query in queries]
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, bank.shape[0], _BLOCK_ROWS):
            rows_ND = bank.full(start, min(start + _BLOCK_ROWS, bank.shape[0])).numpy()
            for _ in pool.map(lambda one, at=start, rows=rows_ND: one.offer(rows, at), best):
                pass
    return np.stack([one.ids for one in best]), np.stack([one.scores for one in best])


class _Best:
    """The best rows of a query so far, best first."""

    def __init__(self, query: NDArray[np.float32], k: int) -> None:
        self._query, self._k = query, k
        self.ids = np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)

    def offer(self, rows_ND: NDArray[np.float32], first: int) -> None:
        """Blocks come in ascending order: of equal scores those that are here already are first."""
        score_N = pair_scores(rows_ND, self._query)
        if len(self.scores) == self._k:
            new = np.flatnonzero(score_N > self.scores[-1])
        else:
            new = np.arange(len(score_N))
        scores = np.concatenate([self.scores, score_N[new]])
        order = np.argsort(-scores, kind="stable")[: self._k]
        self.scores, self.ids = scores[order], np.concatenate([self.ids, first + new])[order]
