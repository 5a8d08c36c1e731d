"""The first pass: products of a block of the bank with tiles of queries, reduced to group maxima.

A group is every 64th of 1,024 rows: its maximum is then computed over whole vectors of neighbours,
which costs a fiftieth of the product. Only groups that reach a query's floor are read.

Shapes: T queries of a tile, N rows of a block, S spans of it, G groups of a span, M rows of a
group, H groups read, C found pairs of a query and a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.error_bounds import SAFE, Asked
from ttf.mining.scan.sort_keys import kth_largest

BLOCK_ROWS = 4096
GROUPS = 64
MEMBERS = 16
_MAGNITUDE = 0x7FFF
_TINY = 1e-30
_ROUNDING = 2.0**-8
PAIR_BYTES = 10


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of every row of the bank; the residuals are zero if the first pass is float32."""

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

    A query whose rows cannot be separated within `room` pairs is given up: its floor becomes
    infinite, and a finer pass handles it.
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
        """The scores are those of the first pass; `bounds` must hold these rows."""
        pairs = _Pairs(query=query_C.astype(np.int16), row=row_C.astype(np.int32), score=score_C)
        self._parts.append(pairs)
        self._count += len(query_C)
        if self._count > 2 * self._room:
            self._make_room(bounds)

    def give_up(self, queries: torch.Tensor) -> None:
        # `queries` is a mask (T,).
        self.given_up |= queries
        self.floors[queries] = torch.inf

    def settled(self, bounds: Bounds) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """The pairs of a query's position and a row that can still be among its k best. Frees the
        memory."""
        best, _ = self._best(bounds)
        self._parts = []
        return best.query, best.row

    def _make_room(self, bounds: Bounds) -> None:
        best, floors_T = self._best(bounds)
        self.floors = torch.maximum(self.floors, floors_T)
        if len(best.query) > self._room:
            crowded_T = _queries_to_drop(best.query, len(floors_T), self._room // 2)
            self.give_up(torch.from_numpy(crowded_T))
            best = best.at(np.flatnonzero(~crowded_T[best.query]))
        self._parts = [best]
        self._count = len(best.query)

    def _best(self, bounds: Bounds) -> tuple[_Pairs, torch.Tensor]:
        """The pairs that can be among the k best, and a lower bound of each query's k-th best."""
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
    return _Pairs(
        query=np.concatenate([np.zeros(0, np.int16), *(part.query for part in parts)]),
        row=np.concatenate([np.zeros(0, np.int32), *(part.row for part in parts)]),
        score=np.concatenate([np.zeros(0, np.float32), *(part.score for part in parts)]),
    )


def _queries_to_drop(query_C: NDArray[np.int16], num: int, room: int) -> NDArray[np.bool_]:
    """A mask (num,) of the queries with most pairs, so that the others' pairs fit into `room`."""
    counts_T = np.bincount(query_C, minlength=num)
    fewest = np.argsort(counts_T, kind="stable")
    fit_T = np.cumsum(counts_T[fewest]) <= room
    out_T = np.ones(num, np.bool_)
    out_T[fewest[fit_T]] = False
    return out_T


class Block:
    """Rows of the bank from `first` on, padded to whole groups, and the bounds of its groups."""

    def __init__(
        self, rows_ND: torch.Tensor, first: int, norms_N: torch.Tensor, residuals_N: torch.Tensor
    ) -> None:
        self.first = first
        self.count = len(rows_ND)
        missing = -self.count % GROUPS
        pad = torch.nn.functional.pad
        self.rows = pad(rows_ND, (0, 0, 0, missing)) if missing else rows_ND
        self.norms_G = pad(norms_N, (0, missing)).view(-1, GROUPS).amax(0)
        self.residuals_G = pad(residuals_N, (0, missing)).view(-1, GROUPS).amax(0)
        self.longest = float(norms_N.amax())


def offer(found: Found, block: Block, scratch: torch.Tensor, bounds: Bounds) -> None:
    """Adds rows that may reach the floors of `found`; `scratch` holds a tile's scores of a
    block."""
    unsafe_T = ~(found.asked.lengths * block.longest <= SAFE)
    if bool(unsafe_T.any()):
        found.give_up(unsafe_T)
    width = len(block.rows)
    score_TN = found.asked.scores(block.rows, scratch)
    low_TG = _thresholds(found, block)
    turned = score_TN.dtype == torch.bfloat16 and not float(low_TG.amin()) > _TINY
    whole_TN, least_TG = _as_integers(score_TN, low_TG.to(score_TN.dtype), turned)
    if bool(found.given_up.any()):
        # what no score reaches, infinite ones neither
        never = torch.nan if least_TG.dtype.is_floating_point else _MAGNITUDE
        least_TG[found.given_up] = never
    place_C = _places(whole_TN, least_TG)
    query_C, column_C = place_C // width, place_C % width
    if block.count < width:
        held = column_C < block.count
        place_C, query_C, column_C = place_C[held], query_C[held], column_C[held]
    if len(place_C):
        score_C = _as_scores(whole_TN.numpy().ravel().take(place_C), turned)
        found.add(query_C, block.first + column_C, score_C, bounds)


def _places(score_TN: torch.Tensor, low_TG: torch.Tensor) -> NDArray[np.int64]:
    """Positions, counted through (T, N), of scores that reach their group's threshold."""
    span = score_TN.shape[1] // GROUPS
    members = math.gcd(span, MEMBERS)
    best_TSG = score_TN.view(-1, span // members, members, GROUPS).amax(2)
    # torch's nonzero took as long as everything else here together
    group_H = np.flatnonzero((best_TSG >= low_TG[:, None]).numpy())
    part_H, group_of_H = group_H // GROUPS, group_H % GROUPS
    first_H = part_H * (members * GROUPS) + group_of_H
    place_HM = first_H[:, None] + np.arange(members) * GROUPS
    low_H = low_TG.numpy().ravel().take(part_H // (span // members) * GROUPS + group_of_H)
    reaches = score_TN.numpy().ravel().take(place_HM) >= low_H[:, None]
    return place_HM.ravel()[np.flatnonzero(reaches)]


def _as_integers(
    score_TN: torch.Tensor, low_TG: torch.Tensor, turned: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """bfloat16 numbers as integers, which compare in a third of the time. Positive numbers are in
    the order of their bits; negative ones are `turned` into that order if they matter."""
    if score_TN.dtype != torch.bfloat16:
        return score_TN, low_TG
    if not turned:
        return score_TN.view(torch.int16), low_TG.view(torch.int16)
    low_TG[low_TG == 0] = -0.0  # which is below the positive zero now
    score, low = score_TN.view(torch.int16), low_TG.view(torch.int16)
    score ^= (score >> 15) & _MAGNITUDE
    low ^= (low >> 15) & _MAGNITUDE
    return score, low


def _as_scores(taken_C: NDArray[Any], turned: bool) -> NDArray[np.float32]:
    if taken_C.dtype == np.float32:
        return taken_C
    bits_C = taken_C ^ ((taken_C >> 15) & np.int16(_MAGNITUDE)) if turned else taken_C
    return (bits_C.astype(np.int32) << 16).view(np.float32)


def _thresholds(found: Found, block: Block) -> torch.Tensor:
    """Product thresholds (T, G) that correspond to the floor."""
    asked = found.asked
    floors_T = torch.where(
        found.floors.isinf(), found.floors, found.floors - found.floors.abs() * 2.0**-21
    )
    low_TG = torch.addcmul(
        (floors_T - asked.constant)[:, None],
        asked.of_norm[:, None],
        block.norms_G,
        value=-1,
    )
    return low_TG.addcmul_(asked.of_residual[:, None], block.residuals_G, value=-1)
