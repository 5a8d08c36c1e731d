"""What the first pass found for a tile of queries: rows that may be among the best.

Shapes: T queries of the tile, C found pairs of a query and a row, W pairs of the query with most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.scan.bounds import Asked

_ROUNDING = 2.0**-8
PAIR_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of every row of the bank; the residuals are zero where the first pass is float32."""

    norms: torch.Tensor
    residuals: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    query: torch.Tensor
    row: torch.Tensor
    score: torch.Tensor

    def at(self, which: torch.Tensor) -> _Pairs:
        return _Pairs(query=self.query[which], row=self.row[which], score=self.score[which])


class Found:
    """Pairs whose score may reach the floor of their query; a floor only ever rises.

    A query whose rows cannot be told apart within `room` pairs is given up: its floor becomes
    infinite, and it is left to a finer pass.
    """

    def __init__(self, asked: Asked, floors: torch.Tensor, k: int, room: int) -> None:
        self.asked = asked
        self.floors = floors
        self.given_up = torch.zeros(len(floors), dtype=torch.bool)
        self._k = k
        self._room = room * len(floors)
        self._parts: list[_Pairs] = []
        self._count = 0

    def add(
        self, query_C: torch.Tensor, row_C: torch.Tensor, score_C: torch.Tensor, bounds: Bounds
    ) -> None:
        """The scores are those of the first pass; `bounds` must know these rows."""
        pairs = _Pairs(query=query_C.to(torch.int16), row=row_C.to(torch.int32), score=score_C)
        self._parts.append(pairs)
        self._count += len(query_C)
        if self._count > 2 * self._room:
            self._make_room(bounds)

    def give_up(self, queries: torch.Tensor) -> None:
        """A mask (T,)."""
        self.given_up |= queries
        self.floors[queries] = torch.inf

    def settled(self, bounds: Bounds) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that can still be among the k best, one query after another, and (T + 1,) where
        each query's begin. Gives the memory back."""
        best, _ = self._best(bounds)
        self._parts = []
        counts_T = torch.bincount(best.query, minlength=len(self.floors)).numpy()
        return best.row.long().numpy(), np.concatenate([[0], np.cumsum(counts_T)])

    def _make_room(self, bounds: Bounds) -> None:
        best, floors_T = self._best(bounds)
        self.floors = torch.maximum(self.floors, floors_T)
        if len(best.query) > self._room:
            crowded_T = _crowded(best.query, len(floors_T), self._room // 2)
            self.give_up(crowded_T)
            best = best.at(~crowded_T[best.query.int()])
        self._parts = [best]
        self._count = len(best.query)

    def _best(self, bounds: Bounds) -> tuple[_Pairs, torch.Tensor]:
        """Pairs by query, without those that cannot be among the k best; and what the k-th best
        of each query is at least."""
        pairs = _joined(self._parts)
        at_C, row_C = pairs.query.int(), pairs.row.long()
        error_C = self.asked.error_of(at_C, bounds.norms[row_C], bounds.residuals[row_C])
        score_C = pairs.score.float()
        if pairs.score.dtype == torch.bfloat16:
            error_C += score_C.abs() * _ROUNDING
        least_T = self._kth(at_C, score_C - error_C)
        least_T -= least_T.abs() * 2.0**-21  # the subtraction was rounded
        floors_T = torch.maximum(least_T, self.floors)
        may_C = score_C + error_C >= (floors_T - floors_T.abs() * 2.0**-21)[at_C]
        may_C &= ~self.given_up[at_C]
        return pairs.at(may_C), least_T

    def _kth(self, query_C: torch.Tensor, least_C: torch.Tensor) -> torch.Tensor:
        """The k-th largest of each query, -inf where there are fewer."""
        num = len(self.floors)
        counts_T = torch.bincount(query_C, minlength=num)
        width = int(counts_T.max())
        if width < self._k:
            return torch.full((num,), -torch.inf)
        begins_T = counts_T.cumsum(0) - counts_T
        table_TW = np.full((num, width), -np.inf, np.float32)
        places_C = torch.arange(len(query_C)) - begins_T[query_C]
        table_TW[query_C.numpy(), places_C.numpy()] = least_C.numpy()
        table_TW.partition(width - self._k, axis=1)  # several times faster than topk
        return torch.from_numpy(table_TW[:, width - self._k].copy())


def _joined(parts: list[_Pairs]) -> _Pairs:
    """All pairs, by query; a stable sort of 16 bits is a radix sort."""
    if not parts:
        none = torch.zeros(0)
        return _Pairs(query=none.to(torch.int16), row=none.to(torch.int32), score=none)
    together = _Pairs(
        query=torch.cat([part.query for part in parts]),
        row=torch.cat([part.row for part in parts]),
        score=torch.cat([part.score for part in parts]),
    )
    return together.at(torch.from_numpy(np.argsort(together.query.numpy(), kind="stable")))


def _crowded(query_C: torch.Tensor, num: int, room: int) -> torch.Tensor:
    """A mask (num,) of the queries with most pairs, so many that the others' fit into `room`."""
    counts_T = torch.bincount(query_C, minlength=num)
    fewest = counts_T.argsort(stable=True)
    fit_T = counts_T[fewest].cumsum(0) <= room
    out_T = torch.ones(num, dtype=torch.bool)
    out_T[fewest[fit_T]] = False
    return out_T
