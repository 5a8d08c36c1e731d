"""The second pass: float32 scores of pairs of a query and a row.

Pairs of all queries are ordered by row: a row is read (and widened, if stored in half precision)
once for all its queries, and rows are read in storage order. Where several rows have equally many
queries, one call scores them all, so that only queries are copied.

Shapes: P pairs, U different rows of a window, Q queries of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.float32_rows import pair_scores

# Bytes of rows, and of queries, that are held together: about the cache of a core.
_ROW_BYTES = 1 << 22
_QUERY_BYTES = 1 << 20
_SHARES = 4  # Per thread.
_PLACE_BITS = 32
_PLACE_MASK = np.int64(2**_PLACE_BITS - 1)

Listed = tuple[NDArray[np.int32], NDArray[np.int64]]  # Rows, and the queries they are paired with.


class PairScores:
    """Scores many pairs at a time with several threads."""

    def __init__(
        self, bank: HalfBank, queries: NDArray[np.float32], pool: Executor, threads: int
    ) -> None:
        self._bank = bank
        self._queries = queries
        self._pool = pool
        self._shares = _SHARES * threads

    def of(self, lists: Sequence[Listed]) -> list[NDArray[np.float32]]:
        """The scores of the pairs of each list, in its order."""
        ends = np.cumsum([len(row_P) for row_P, _ in lists])
        begins = [0, *ends[:-1].tolist()]
        query_P = np.concatenate([query_P for _, query_P in lists])
        tiles = list(self._pool.map(_by_row, (row_P for row_P, _ in lists), begins))
        edges = np.linspace(0, self._bank.shape[0], self._shares + 1).astype(np.int64)
        edges <<= _PLACE_BITS
        score_P = np.empty(len(query_P), np.float32)

        def share(at: int) -> None:
            cuts = [np.searchsorted(tile, edges[at : at + 2]) for tile in tiles]
            keys_P = np.concatenate(
                [tile[cut[0] : cut[1]] for tile, cut in zip(tiles, cuts, strict=True)]
            )
            if len(tiles) > 1:
                keys_P.sort()
            self._score(keys_P, query_P, score_P)

        for _ in self._pool.map(share, range(self._shares)):
            pass
        return np.split(score_P, ends[:-1])

    def _score(
        self, keys_P: NDArray[np.int64], query_P: NDArray[np.int64], into_P: NDArray[np.float32]
    ) -> None:
        dim = self._queries.shape[1]
        asked_PD = np.empty((max(16, _QUERY_BYTES // (4 * dim)), dim), np.float32)
        for row_U, count_U, place_P in _windows(keys_P, max(16, _ROW_BYTES // (4 * dim))):
            rows_UD = self._bank.rows(row_U)
            query_of_P = query_P.take(place_P)
            into_P[place_P] = self._of_window(rows_UD, count_U, query_of_P, asked_PD)

    def _of_window(
        self,
        rows_UD: NDArray[np.float32],
        count_U: NDArray[np.int64],
        query_P: NDArray[np.int64],
        asked_PD: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        score_P = np.empty(len(query_P), np.float32)
        at = 0
        for first, stop, count in _equal_counts(count_U, len(asked_PD)):
            rows_U1D = rows_UD[first:stop, None]
            for begin in range(0, count, len(asked_PD)):  # more than once for a single row only
                width = min(count - begin, len(asked_PD))
                here = slice(at, at + (stop - first) * width)
                at = here.stop
                asked = asked_PD[: here.stop - here.start]
                self._queries.take(query_P[here], axis=0, out=asked, mode="clip")
                asked_UQD = asked.reshape(stop - first, width, -1)
                score_P[here] = pair_scores(rows_U1D, asked_UQD).ravel()
        return score_P


def _by_row(row_P: NDArray[np.int32], begin: int) -> NDArray[np.int64]:
    """Pairs as numbers, ordered by row; the low half is the place of the pair."""
    keys_P = row_P.astype(np.int64) << _PLACE_BITS | np.arange(begin, begin + len(row_P))
    keys_P.sort()
    return keys_P


def _windows(
    keys_P: NDArray[np.int64], most: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """At most so many rows at a time: the rows, those with fewest pairs first, their numbers of
    pairs, and the places of the pairs in this order."""
    row_P = keys_P >> _PLACE_BITS
    first_U = np.flatnonzero(np.diff(row_P, prepend=-1))
    count_U = np.diff(first_U, append=len(row_P))
    for start in range(0, len(first_U), most):
        here = slice(start, start + most)
        order_U = np.argsort(count_U[here], kind="stable")
        own_U, first_own_U = count_U[here][order_U], first_U[here][order_U]
        ends_U = np.cumsum(own_U)
        # of each row the pairs one after another
        at_P = np.repeat(first_own_U - (ends_U - own_U), own_U)
        at_P += np.arange(len(at_P))
        yield row_P.take(first_own_U), own_U, keys_P.take(at_P) & _PLACE_MASK


def _equal_counts(count_U: NDArray[np.int64], most: int) -> Iterator[tuple[int, int, int]]:
    """(First row, end, pairs per row) of rows with equally many pairs, at most so many pairs in
    all."""
    edges = np.flatnonzero(np.diff(count_U, prepend=0, append=0)).tolist()
    for first, stop in pairwise(edges):
        count = int(count_U[first])
        step = max(1, most // count)
        for begin in range(first, stop, step):
            yield begin, min(begin + step, stop), count
