"""The pairs of a query and a row that the first pass has found for a tile of queries.

Shapes: T queries of a tile, C pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.error_bounds import Asked
from ttf.mining.scan.score_floors import Ranked, Usual, guessed, likely_limits
from ttf.mining.scan.sort_keys import in_order, kth_largest

PAIR_BYTES = 10
_ROUNDING = 2.0**-8


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of every row of the bank; the residuals are zero if the first pass is float32."""

    norms: torch.Tensor
    residuals: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Pairs:
    query: NDArray[np.int16]
    row: NDArray[np.int32]
    score: NDArray[np.float32]  # Of the first pass.

    def at(self, which: NDArray[np.int64]) -> Pairs:
        return Pairs(
            query=self.query.take(which), row=self.row.take(which), score=self.score.take(which)
        )


class Found:
    """Pairs whose score may reach the floor of their query; a floor only ever rises.

    A query whose rows cannot be separated within `room` pairs is given up: its floor becomes
    infinite, and a finer pass handles it.

    With ceilings (T,), rows count whose float32 score is below that of their query. Pairs are kept
    as long as they may be. With `within`, only rows among so many best ones of all count: a query
    with as many rows above its ceiling has none.
    """

    def __init__(
        self,
        asked: Asked,
        floors: torch.Tensor,
        k: int,
        room: int,
        ceilings: torch.Tensor | None = None,
        within: int | None = None,
        *,
        half: bool,
    ) -> None:
        self.asked = asked
        self.ceilings = ceilings
        self.within = within
        self.above = np.zeros(len(floors), np.int64)  # Rows that are certainly above the ceiling.
        self.beyond = torch.zeros(len(floors), dtype=torch.bool)
        self.floors = floors
        self.given_up = torch.zeros(len(floors), dtype=torch.bool)
        self.empty = True
        self._k = k
        self._room = room * len(floors)
        self._half = half
        self._parts: list[Pairs] = []
        self._count = 0

    def add(
        self,
        query_C: NDArray[np.int64],
        row_C: NDArray[np.int64],
        score_C: NDArray[np.float32],
        bounds: Bounds,
    ) -> None:
        """The scores are those of the first pass; `bounds` must hold these rows."""
        pairs = Pairs(query=query_C.astype(np.int16), row=row_C.astype(np.int32), score=score_C)
        self._parts.append(pairs)
        self._count += len(query_C)
        self.empty = False
        if self._count > 2 * self._room:
            self._make_room(bounds)

    def give_up(self, queries: torch.Tensor) -> None:
        # `queries` is a mask (T,).
        self.given_up |= queries
        self.floors[queries] = torch.inf

    def limits(self, row: Usual) -> torch.Tensor | None:
        """(T,) first scores below which rows most likely count; None: all do."""
        if self.ceilings is None:
            return None
        return likely_limits(self.ceilings, self.asked, row, half=self._half)

    def count_above(self, rows_T: NDArray[np.int64]) -> None:
        """Adds to the rows above the ceilings; who has too many needs no further search."""
        self.above += rows_T
        if self.within is not None:
            self.beyond = torch.from_numpy(self.above >= self.within) & ~self.given_up
            self.floors[self.beyond] = torch.inf

    def guess(self, ranked: Ranked, row: Usual) -> None:
        """Raises floors to what `ranked` makes likely; the certificate finds out if it is not
        so."""
        below = self.ceilings is not None
        floors_T = guessed(ranked, self.asked, row, half=self._half, below=below)
        self.floors = torch.maximum(self.floors, floors_T)

    def guess_again(self, rank: int, row: Usual) -> None:
        """`guess` with all rows that were read so far."""
        pairs = self._joined()
        score_C, limits_T = pairs.score, self.limits(row)
        if limits_T is not None:
            counts_C = score_C < limits_T.numpy()[pairs.query]
            score_C = np.where(counts_C, score_C, np.float32(-np.inf))
        ranked_T, best_T = kth_largest(pairs.query, score_C, len(self.floors), rank, 1)
        ranked = Ranked(score=torch.from_numpy(ranked_T), best=torch.from_numpy(best_T))
        self.guess(ranked, row)

    def ordered(self) -> Pairs:
        """All pairs, by query, then by first score (nearly: to 22 bits), highest first. Frees the
        memory."""
        pairs = self._joined()
        self._parts = []
        over_T = (self.given_up | self.beyond).numpy()
        if over_T.any():
            pairs = pairs.at(np.flatnonzero(~over_T[pairs.query]))
        return pairs.at(in_order(pairs.query, pairs.score))

    def highest(self, pairs: Pairs, bounds: Bounds) -> torch.Tensor:
        """Upper limits (C,) of the pairs' float32 scores."""
        score_C = torch.from_numpy(pairs.score)
        return score_C + self.errors(pairs, bounds)

    def errors(self, pairs: Pairs, bounds: Bounds) -> torch.Tensor:
        """(C,) how far the pairs' first scores can be from their float32 ones."""
        at_C, row_C = torch.from_numpy(pairs.query).int(), torch.from_numpy(pairs.row)
        error_C = self.asked.error_of(at_C, bounds.norms[row_C], bounds.residuals[row_C])
        if self._half:
            error_C += torch.from_numpy(pairs.score).abs() * _ROUNDING
        return error_C

    def _make_room(self, bounds: Bounds) -> None:
        best, floors_T = self._best(bounds)
        self.floors = torch.maximum(self.floors, floors_T)
        if len(best.query) > self._room:
            crowded_T = _queries_to_drop(best.query, len(floors_T), self._room // 2)
            self.give_up(torch.from_numpy(crowded_T))
            best = best.at(np.flatnonzero(~crowded_T[best.query]))
        self._parts = [best]
        self._count = len(best.query)

    def _best(self, bounds: Bounds) -> tuple[Pairs, torch.Tensor]:
        """The pairs that can be among the k best, and a lower bound of each query's k-th best."""
        pairs = self._joined()
        at_C = torch.from_numpy(pairs.query).int()
        score_C, error_C = torch.from_numpy(pairs.score), self.errors(pairs, bounds)
        lows_C = (score_C - error_C).numpy()
        possible_C: torch.Tensor | None = None
        if self.ceilings is not None:
            # Rows that may lie above the ceiling vouch for no floor.
            ceiling_C = self.ceilings[at_C]
            slack_C = ceiling_C.abs().nan_to_num(posinf=0.0) * 2.0**-21
            lows_C[(score_C + error_C >= ceiling_C - slack_C).numpy()] = -np.inf
            possible_C = score_C - error_C <= ceiling_C + slack_C
        (kth_T,) = kth_largest(pairs.query, lows_C, len(self.floors), self._k)
        least_T = torch.from_numpy(kth_T)
        least_T -= least_T.abs() * 2.0**-21  # the subtraction was rounded
        floors_T = torch.maximum(least_T, self.floors)
        may_C = score_C + error_C >= (floors_T - floors_T.abs() * 2.0**-21)[at_C]
        may_C &= ~self.given_up[at_C]
        if possible_C is not None:
            may_C &= possible_C
            gone = pairs.query[~possible_C.numpy()]
            self.count_above(np.bincount(gone, minlength=len(self.floors)))
        return pairs.at(np.flatnonzero(may_C.numpy())), least_T

    def _joined(self) -> Pairs:
        parts = self._parts
        joined = Pairs(
            query=np.concatenate([np.zeros(0, np.int16), *(part.query for part in parts)]),
            row=np.concatenate([np.zeros(0, np.int32), *(part.row for part in parts)]),
            score=np.concatenate([np.zeros(0, np.float32), *(part.score for part in parts)]),
        )
        self._parts = [joined]
        return joined


def _queries_to_drop(query_C: NDArray[np.int16], num: int, room: int) -> NDArray[np.bool_]:
    """A mask (num,) of the queries with most pairs, so that the others' pairs fit into `room`."""
    counts_T = np.bincount(query_C, minlength=num)
    fewest = np.argsort(counts_T, kind="stable")
    fit_T = np.cumsum(counts_T[fewest]) <= room
    out_T = np.ones(num, np.bool_)
    out_T[fewest[fit_T]] = False
    return out_T
