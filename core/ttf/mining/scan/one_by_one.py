"""The last resort: every row of the bank scored, for queries whose best rows are too alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.best_so_far import Best
from ttf.mining.scan.bf16_bank import HalfBank

_BLOCK_ROWS = 2048


def scan_one_by_one(
    bank: HalfBank, queries: NDArray[np.float32], k: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows of each query, by definition; as slow as the memory is."""
    best = [Best(query, k) for query in queries]
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, bank.shape[0], _BLOCK_ROWS):
            rows_ND = bank.full(start, min(start + _BLOCK_ROWS, bank.shape[0])).numpy()
            ids_N = np.arange(start, start + len(rows_ND))
            for _ in pool.map(lambda one, rows=rows_ND, ids=ids_N: one.offer(rows, ids), best):
                pass
    return np.stack([one.ids for one in best]), np.stack([one.scores for one in best])
