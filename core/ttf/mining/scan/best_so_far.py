"""The best rows of one query so far, by the one float32 score; ties by smaller id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.scores import pair_scores


class Best:
    """Rows are offered in ascending order: of equal scores those that are here already are first."""

    def __init__(self, query: NDArray[np.float32], k: int) -> None:
        self._query = query
        self._k = k
        self.ids = np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)

    @property
    def least(self) -> float:
        """What a row must exceed to come in."""
        return float(self.scores[-1]) if len(self.scores) == self._k else -np.inf

    def offer(self, rows_CD: NDArray[np.float32], ids_C: NDArray[np.int64]) -> None:
        score_C = pair_scores(rows_CD, self._query)
        new = np.flatnonzero(score_C > self.least)
        scores = np.concatenate([self.scores, score_C[new]])
        order = np.argsort(-scores, kind="stable")[: self._k]
        self.scores = scores[order]
        self.ids = np.concatenate([self.ids, ids_C[new]])[order]
