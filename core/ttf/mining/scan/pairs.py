"""What the first pass found for a tile of queries: rows that may be among the best.

Shapes: T queries of the tile, C found pairs of a query and a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.bounds import Asked
from ttf.mining.scan.sort_keys import kth_largest

_ROUNDING = 2.0**-8
PAIR_BYTES = 10
_NO_SCORE = np.zeros(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of every row of the bank; the residuals are zero where the first pass is float32."""

    norms: torch.Tensor
    residuals: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    query: NDArray[np.int16]
    row: NDArray[np.int32]
    score: NDArray[np.float32]

    def at(self, which: NDArray[np.int64]) -> _Pairs:
        return _Pairs(
            query=self.query.take(which), row=self.row.take(which), score=self.score.take(which)
        )


class Found:
    """Pairs whose score may reach the floor of their query; a floor only ever rises.

    A query whose rows cannot be told apart within `room` pairs is given up: its floor becomes
    infinite, and it is left to a finer pass.
    """

    def __init__(
        self, asked: Asked, floors: torch.Tensor, k: int, room: int, *, half: bool
    ) -> None:
        self.asked = asked
        self.floors = floors
        self.given_up = torch.zeros(len(floors), dtype=torch.bool)
        self._k = k
        self._room = room * len(floors)
        self._half = half
        self._parts: list[_Pairs] = []
        self._count = 0

    def add(
        self,
        query_C: NDArray[np.int64],
        row_C: NDArray[np.int64],
        score_C: NDArray[np.float32],
        bounds: Bounds,
    ) -> None:
        """The scores are those of the first pass; `bounds` must know these rows."""
        pairs = _Pairs(query=query_C.astype(np.int16), row=row_C.astype(np.int32), score=score_C)
        self._parts.append(pairs)
        self._count += len(query_C)
        if self._count > 2 * self._room:
            self._make_room(bounds)

    def give_up(self, queries: torch.Tensor) -> None:
        """A mask (T,)."""
        self.given_up |= queries
        self.floors[queries] = torch.inf

    def settled(self, bounds: Bounds) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """The pairs of a query's place and a row that can still be among its k best. Gives the
        memory back."""
        best, _ = self._best(bounds)
        self._parts = []
        return best.query, best.row

    def _make_room(self, bounds: Bounds) -> None:
        best, floors_T = self._best(bounds)
        self.floors = torch.maximum(self.floors, floors_T)
        if len(best.query) > self._room:
            crowded_T = _crowded(best.query, len(floors_T), self._room // 2)
            self.give_up(torch.from_numpy(crowded_T))
            best = best.at(np.flatnonzero(~crowded_T[best.query]))
        self._parts = [best]
        self._count = len(best.query)

    def _best(self, bounds: Bounds) -> tuple[_Pairs, torch.Tensor]:
        """The pairs without those that cannot be among the k best; and what the k-th best of each
        query is at least."""
        pairs = _joined(self._parts)
        at_C, row_C = torch.from_numpy(pairs.query).int(), torch.from_numpy(pairs.row)
        error_C = self.asked.error_of(at_C, bounds.norms[row_C], bounds.residuals[row_C])
        score_C = torch.from_numpy(pairs.score)
        if self._half:
            error_C += score_C.abs() * _ROUNDING
        lows_C = (score_C - error_C).numpy()
        least_T = torch.from_numpy(kth_largest(pairs.query, lows_C, len(self.floors), self._k))
        least_T -= least_T.abs() * 2.0**-21  # the subtraction was rounded
        floors_T = torch.maximum(least_T, self.floors)
        may_C = score_C + error_C >= (floors_T - floors_T.abs() * 2.0**-21)[at_C]
        may_C &= ~self.given_up[at_C]
        return pairs.at(np.flatnonzero(may_C.numpy())), least_T


def _joined(parts: list[_Pairs]) -> _Pairs:
    none = [_Pairs(query=np.zeros(0, np.int16), row=np.zeros(0, np.int32), score=_NO_SCORE)]
    return _Pairs(
        query=np.concatenate([part.query for part in parts or none]),
        row=np.concatenate([part.row for part in parts or none]),
        score=np.concatenate([part.score for part in parts or none]),
    )


def _crowded(query_C: NDArray[np.int16], num: int, room: int) -> NDArray[np.bool_]:
    """A mask (num,) of the queries with most pairs, so many that the others' fit into `room`."""
    counts_T = np.bincount(query_C, minlength=num)
    fewest = np.argsort(counts_T, kind="stable")
    fit_T = np.cumsum(counts_T[fewest]) <= room
    out_T = np.ones(num, np.bool_)
    out_T[fewest[fit_T]] = False
    return out_T
