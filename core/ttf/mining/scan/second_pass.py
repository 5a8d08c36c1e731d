"""The second pass: float32 scores of the pairs that the first pass could not rule out.

Pairs of all queries are ordered by row: a row is read (and widened, if stored in half precision)
once for all its queries, and rows are read in storage order.

Shapes: C pairs of a query and a row, U different rows, W pairs of the query with most.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.float32_rows import pair_scores
from ttf.mining.scan.sort_keys import best_first

# Bytes of rows taken together; with less, threads wait for one another between calls.
_AT_ONCE = 1 << 21
_OFTEN = 4
_QUERY_BITS = 32
_QUERY_MASK = np.int64(2**_QUERY_BITS - 1)


def by_row(row_C: NDArray[np.int32], query_C: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs as numbers, ordered by row."""
    pairs_C = row_C.astype(np.int64) << _QUERY_BITS | query_C
    pairs_C.sort()
    return pairs_C


@dataclass(frozen=True, kw_only=True)
class Scored:
    query: NDArray[np.int32]
    row: NDArray[np.int64]
    score: NDArray[np.float32]

    def best(self, begin: int, end: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of pairs of each of the queries begin..end, and the keys of its k best (see
        `ttf.mining.scan.sort_keys`); for queries with fewer pairs the rest of the keys is
        undefined."""
        mine = np.flatnonzero((self.query >= begin) & (self.query < end))
        query_C = (self.query[mine] - begin).astype(np.int16)
        counts_T = np.bincount(query_C, minlength=end - begin)
        mine = mine[np.argsort(query_C, kind="stable")]  # of 16 bits: a radix sort
        width = max(k, int(counts_T.max(initial=0)))
        table_TW = np.full((end - begin, width), np.iinfo(np.int64).max)
        held = np.arange(width) < counts_T[:, None]
        table_TW[held] = best_first(self.score[mine], self.row[mine])
        table_TW.sort(axis=1)
        return counts_T, table_TW[:, :k]


def scored(
    bank: HalfBank,
    queries: NDArray[np.float32],
    tiles: list[NDArray[np.int64]],
    pool: ThreadPoolExecutor,
    shares: int,
) -> Scored:
    """Scores the pairs of all tiles, each in the order of `by_row`."""
    edges = np.linspace(0, bank.shape[0], shares + 1).astype(np.int64) << _QUERY_BITS

    def share(at: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        cuts = [np.searchsorted(tile, edges[at : at + 2]) for tile in tiles]
        pairs = np.concatenate(
            [tile[cut[0] : cut[1]] for tile, cut in zip(tiles, cuts, strict=True)]
        )
        pairs.sort()
        return pairs, _scores(bank, queries, pairs)

    done = list(pool.map(share, range(shares)))
    pairs_C = np.concatenate([pairs for pairs, _ in done])
    return Scored(
        query=(pairs_C & _QUERY_MASK).astype(np.int32),
        row=pairs_C >> _QUERY_BITS,
        score=np.concatenate([score for _, score in done]),
    )


def _scores(
    bank: HalfBank, queries: NDArray[np.float32], pairs_C: NDArray[np.int64]
) -> NDArray[np.float32]:
    row_C, query_C = pairs_C >> _QUERY_BITS, pairs_C & _QUERY_MASK
    dim = queries.shape[1]
    step = max(16, _AT_ONCE // (4 * dim))
    score_C = np.empty(len(pairs_C), np.float32)
    asked_CD, rows_CD, read_UD = (np.empty((step, dim), np.float32) for _ in range(3))
    for start in range(0, len(pairs_C), step):
        here = slice(start, min(start + step, len(pairs_C)))
        num = here.stop - start
        queries.take(query_C[here], axis=0, out=asked_CD[:num], mode="clip")
        taken_CD = _read(bank, row_C[here], rows_CD[:num], read_UD)
        score_C[here] = pair_scores(taken_CD, asked_CD[:num])
    return score_C


def _read(
    bank: HalfBank,
    row_C: NDArray[np.int64],
    into_CD: NDArray[np.float32],
    read_UD: NDArray[np.float32],
) -> NDArray[np.float32]:
    """The rows of pairs in ascending order; each is read once if most occur often."""
    new_C = np.empty(len(row_C), np.bool_)
    new_C[0] = True
    np.not_equal(row_C[1:], row_C[:-1], out=new_C[1:])
    first_U = np.flatnonzero(new_C)
    if _OFTEN * len(first_U) > len(row_C):
        return bank.rows(row_C, into_CD)
    once_UD = bank.rows(row_C[first_U], read_UD[: len(first_U)])
    return once_UD.take(np.cumsum(new_C) - 1, axis=0, out=into_CD, mode="clip")
