"""As `ttf.mining.scan.shortlist`, where only rows below a ceiling count.

Float32 scores decide which rows those are. The first k of each query are taken from the pairs that
most likely count; if all of them do, the worst of their scores is a lower limit of the k-th best.

Shapes: T queries of a tile, W of them that were not given up, K = k, C pairs, F of them scored first,
E scored in addition.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.found_pairs import Bounds, Found, Pairs
from ttf.mining.scan.score_floors import LIKELY
from ttf.mining.scan.second_pass import Listed
from ttf.mining.scan.sort_keys import NOTHING, best_first

_TOGETHER = 128  # Queries that are sorted in one table, as wide as the longest list of them.
_SLACK = 2.0**-21


class ShortlistBelow:
    """Call `first`, `more` and `best`, in this order. A query with too few rows has fewer than k."""

    def __init__(self, found: Found, k: int, bounds: Bounds) -> None:
        """Frees the memory of `found`."""
        assert found.ceilings is not None
        self._found = found
        self._k = k
        self._ceilings = found.ceilings.numpy()
        # Positions in the tile; every row of theirs that may be among the best was found.
        self.whole = np.flatnonzero(~found.given_up.numpy())
        pairs = found.ordered()
        score_C = torch.from_numpy(pairs.score)
        error_C = found.errors(pairs, bounds)
        ceiling_C = found.ceilings[torch.from_numpy(pairs.query).int()]
        raised_C = torch.where(ceiling_C.isinf(), ceiling_C, ceiling_C + ceiling_C.abs() * _SLACK)
        possible_C = (score_C - error_C <= raised_C).numpy()
        # Of each query, the rows that are at or above its ceiling; complete after `best`.
        self._above = found.above + np.bincount(
            pairs.query[~possible_C], minlength=len(self._ceilings)
        )
        likely_C = possible_C & (score_C + LIKELY * error_C < ceiling_C).numpy()
        first_C = likely_C & (_rank_among(pairs.query, likely_C) < k)
        self._first = pairs.at(np.flatnonzero(first_C))
        self._rest = pairs.at(np.flatnonzero(possible_C & ~first_C))
        self._score_F = np.empty(0, np.float32)
        self._more = self._rest

    def first(self, begin: int) -> Listed:
        """The first pairs; queries are counted from `begin`."""
        return self._first.row, self._first.query.astype(np.int64) + begin

    def more(self, score_F: NDArray[np.float32], begin: int, bounds: Bounds) -> Listed:
        """The other pairs that can be among the k best, after the scores of the first."""
        self._score_F = score_F
        query_F, num = self._first.query, len(self._ceilings)
        counts_T = np.bincount(query_F[score_F < self._ceilings[query_F]], minlength=num)
        worst_T = np.full(num, np.inf, np.float32)
        np.minimum.at(worst_T, query_F, score_F)
        worst_T[counts_T < self._k] = -np.inf
        least_T = torch.maximum(torch.from_numpy(worst_T), self._found.floors)
        least_T -= least_T.abs().nan_to_num(posinf=0.0) * _SLACK  # the sum below is rounded
        high_C = self._found.highest(self._rest, bounds)
        may_C = high_C >= least_T[torch.from_numpy(self._rest.query).int()]
        self._more = self._rest.at(np.flatnonzero(may_C.numpy()))
        return self._more.row, self._more.query.astype(np.int64) + begin

    def best(self, score_E: NDArray[np.float32]) -> NDArray[np.int64]:
        """(W, K) keys of the k best (see `ttf.mining.scan.sort_keys`); after them `NOTHING`."""
        query_C, key_C = self._below(self._first, self._score_F)
        query_E, key_E = self._below(self._more, score_E)
        query_C, key_C = np.concatenate([query_C, query_E]), np.concatenate([key_C, key_E])
        order_C = np.argsort(query_C, kind="stable")
        key_C = key_C[order_C]
        counts_T = np.bincount(query_C, minlength=len(self._ceilings))
        begins_T = np.cumsum(counts_T) - counts_T
        found_TK = np.full((len(counts_T), self._k), NOTHING)
        fewest = np.argsort(counts_T, kind="stable")
        for start in range(0, len(fewest), _TOGETHER):
            these = fewest[start : start + _TOGETHER]
            wide = np.arange(int(counts_T[these].max()))
            table = np.full((len(these), len(wide)), NOTHING)
            held = wide < counts_T[these, None]
            table[held] = key_C[(begins_T[these, None] + wide)[held]]
            table.sort(axis=1)
            found_TK[these, : len(wide)] = table[:, : self._k]
        return found_TK[self.whole]

    def needed(self) -> NDArray[np.int64]:
        """(W,) how many of the k best count: those among the `within` best rows of all. Call it
        after `best`."""
        if self._found.within is None:
            return np.full(len(self.whole), self._k)
        found: NDArray[np.int64] = np.clip(self._found.within - self._above, 0, self._k)
        return found[self.whole]

    def _below(
        self, pairs: Pairs, score_C: NDArray[np.float32]
    ) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        below_C = score_C < self._ceilings[pairs.query]
        self._above += np.bincount(pairs.query[~below_C], minlength=len(self._ceilings))
        counts = np.flatnonzero(below_C)
        row_C = pairs.row.take(counts).astype(np.int64)
        return pairs.query.take(counts), best_first(score_C.take(counts), row_C)


def _rank_among(query_C: NDArray[np.int16], of_C: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of `of_C` stand before each place, of the same query; queries are in order."""
    before_C: NDArray[np.int64] = np.cumsum(of_C) - of_C
    first_C = np.flatnonzero(np.diff(query_C, prepend=-1))
    counts = np.diff(first_C, append=len(query_C))
    found: NDArray[np.int64] = before_C - np.repeat(before_C[first_C], counts)
    return found
