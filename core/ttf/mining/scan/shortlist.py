"""Of the pairs that the first pass found for a tile of queries: which are scored, and the best.

The k first of each query are scored in any case. The worst of these scores is a lower limit of the
k-th best; only pairs that can reach it are scored too.

Shapes: T queries of a tile, W of them with at least k pairs, K = k, C found pairs, E of them scored
in addition.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.found_pairs import Bounds, Found
from ttf.mining.scan.second_pass import Listed
from ttf.mining.scan.sort_keys import NOTHING, best_first

_TOGETHER = 128  # Queries that are sorted in one table, as wide as the longest list of them.


class Shortlist:
    """Call `first`, `more` and `best`, in this order."""

    def __init__(self, found: Found, k: int) -> None:
        """Frees the memory of `found`."""
        self._found = found
        self._k = k
        pairs = found.ordered()
        counts_T = np.bincount(pairs.query, minlength=len(found.floors))
        begins_T = np.cumsum(counts_T) - counts_T
        # Positions in the tile of queries with enough pairs.
        self.whole = np.flatnonzero(counts_T >= k)
        self._row_WK = pairs.row.take(begins_T[self.whole, None] + np.arange(k))
        begins_T += k
        self._rest = pairs.at(
            np.flatnonzero(np.arange(len(pairs.row)) >= begins_T.repeat(counts_T))
        )
        self._score_WK = np.empty((0, k), np.float32)
        self._more = self._rest

    def first(self, begin: int) -> Listed:
        """The first pairs; queries are counted from `begin`."""
        return self._row_WK.ravel(), np.repeat(self.whole + begin, self._k)

    def more(self, score_P: NDArray[np.float32], begin: int, bounds: Bounds) -> Listed:
        """The other pairs that can be among the k best, after the scores of the first."""
        self._score_WK = score_P.reshape(-1, self._k)
        least_T = torch.full((len(self._found.floors),), torch.inf)
        least_T[self.whole] = torch.from_numpy(self._score_WK.min(axis=1, initial=np.inf))
        least_T = torch.maximum(least_T, self._found.floors)
        least_T -= least_T.abs() * 2.0**-21  # the sum below is rounded
        high_C = self._found.highest(self._rest, bounds)
        may_C = high_C >= least_T[torch.from_numpy(self._rest.query).int()]
        self._more = self._rest.at(np.flatnonzero(may_C.numpy()))
        return self._more.row, self._more.query.astype(np.int64) + begin

    def best(self, score_E: NDArray[np.float32]) -> NDArray[np.int64]:
        """(W, K) keys of the k best (see `ttf.mining.scan.sort_keys`)."""
        keys_WK = best_first(self._score_WK, self._row_WK.astype(np.int64))
        more_E = best_first(score_E, self._more.row.astype(np.int64))
        counts_W = np.bincount(self._more.query, minlength=len(self._found.floors))[self.whole]
        begins_W = np.cumsum(counts_W) - counts_W
        order = np.argsort(counts_W, kind="stable")
        for start in range(0, len(order), _TOGETHER):
            these = order[start : start + _TOGETHER]
            wide = np.arange(int(counts_W[these].max()))
            table = np.full((len(these), self._k + len(wide)), NOTHING)
            table[:, : self._k] = keys_WK[these]
            held = wide < counts_W[these, None]
            table[:, self._k :][held] = more_E[(begins_W[these, None] + wide)[held]]
            table.sort(axis=1)
            keys_WK[these] = table[:, : self._k]
        return keys_WK
