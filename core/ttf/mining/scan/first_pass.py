"""The first pass: products of a block of the bank with tiles of queries, reduced to group maxima.

A group is 8 neighbouring rows. The scores of a row lie side by side, so that maxima are computed
over whole vectors of queries, which costs a fiftieth of the product. Only groups that reach a
query's floor are read. Where queries have ceilings, see `ttf.mining.scan.below_ceilings`.

Shapes: T queries of a tile, L lanes (T with padding), N rows of a block, S spans of rows that share
a threshold, M rows of a group, H groups read, C found pairs of a query and a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import padded_rows
from ttf.mining.scan.below_ceilings import MEMBERS, SPAN, counted_above, reaching_below, turn
from ttf.mining.scan.error_bounds import SAFE, Rounded
from ttf.mining.scan.found_pairs import Bounds, Found
from ttf.mining.scan.score_floors import BLOCK_ROWS, ranked_scores, usual

_GROUPS = SPAN // MEMBERS
_MAGNITUDE = 0x7FFF
_TINY = 1e-30


class Scratch:
    """The memory for one thread's products."""

    def __init__(self, queries: int, dtype: torch.dtype) -> None:
        lanes = padded_rows(queries)
        self.scores = torch.empty(BLOCK_ROWS * lanes, dtype=dtype)
        self.maxima = torch.empty(BLOCK_ROWS // MEMBERS * lanes, dtype=dtype)


class Block:
    """Rows of the bank, padded to whole spans, and the bounds of its spans."""

    def __init__(self, ids: range, read: Rounded, rank: int = 0) -> None:
        """`rank` > 0: the rows up to this block are an even sample of the bank, and the score of
        this rank in it is hardly above a query's k-th best."""
        self.ids = ids
        self.rank = rank
        norms_N, residuals_N = torch.from_numpy(read.norms), torch.from_numpy(read.residuals)
        missing = -len(ids) % SPAN
        pad = torch.nn.functional.pad
        self.rows = pad(read.half, (0, 0, 0, missing)) if missing else read.half
        self.norms_S = pad(norms_N, (0, missing)).view(-1, SPAN).amax(1)
        self.residuals_S = pad(residuals_N, (0, missing)).view(-1, SPAN).amax(1)
        self.longest = float(self.norms_S.amax())
        self.usual = usual(norms_N, residuals_N)


def offer(found: Found, block: Block, scratch: Scratch, bounds: Bounds) -> None:
    """Adds rows that may reach the floors of `found`."""
    if bool((found.beyond | found.given_up).all()):
        return
    unsafe_T = ~(found.asked.lengths * block.longest <= SAFE)
    if bool(unsafe_T.any()):
        found.give_up(unsafe_T)
    count = len(block.ids)
    score_NL = found.asked.scores_by_row(block.rows, scratch.scores)
    lanes = score_NL.shape[1]
    first = found.empty
    if block.rank and first:
        limits_T = found.limits(block.usual)
        ranked = ranked_scores(score_NL[:count, : len(found.floors)], block.rank, limits_T)
        found.guess(ranked, block.usual)
    low_ST = _thresholds(found, block)
    if found.ceilings is not None:
        high_ST = _upper(found, block)
        if found.within is not None:
            found.count_above(counted_above(score_NL, high_ST, count))
        place_C, score_C = reaching_below(score_NL, low_ST, high_ST, scratch.maxima)
    else:
        place_C, score_C = _reaching(score_NL, low_ST, found.given_up, scratch)
    row_C = place_C // lanes
    query_C = place_C - row_C * lanes
    if count < len(score_NL):
        held = row_C < count
        query_C, row_C, score_C = query_C[held], row_C[held], score_C[held]
    if len(row_C):
        found.add(query_C, block.ids.start + block.ids.step * row_C, score_C, bounds)
    if block.rank and not first:
        found.guess_again(block.rank, block.usual)


def _reaching(
    score_NL: torch.Tensor, low_ST: torch.Tensor, given_up_T: torch.Tensor, scratch: Scratch
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Scores that reach the threshold of their span, and their places, counted through (N, L)."""
    rows, lanes = score_NL.shape
    turned = score_NL.dtype == torch.bfloat16 and not float(low_ST.amin()) > _TINY
    score_NL, low_ST = _as_integers(score_NL, low_ST.to(score_NL.dtype), turned)
    low_SL = _in_lanes(low_ST, lanes, given_up_T)
    best = scratch.maxima.view(score_NL.dtype)[: rows // MEMBERS * lanes].view(-1, lanes)
    torch.amax(score_NL.view(-1, MEMBERS, lanes), 1, out=best)
    # torch's comparisons and nonzero take several times as long as numpy's
    reaches = best.numpy().reshape(-1, _GROUPS, lanes) >= low_SL[:, None]
    at_H = np.flatnonzero(reaches)
    group_H = at_H // lanes
    low_H = low_SL.ravel().take(at_H - (group_H - group_H // _GROUPS) * lanes)
    first_H = at_H + group_H * ((MEMBERS - 1) * lanes)
    place_MH = first_H + np.arange(MEMBERS)[:, None] * lanes
    level_MH = score_NL.numpy().ravel().take(place_MH)
    found_C = np.flatnonzero(level_MH >= low_H)
    return place_MH.ravel().take(found_C), _as_scores(level_MH.ravel().take(found_C), turned)


def _in_lanes(low_ST: torch.Tensor, lanes: int, given_up_T: torch.Tensor) -> NDArray[Any]:
    """Thresholds (S, L), which nothing reaches where there is no query or its search was given
    up."""
    # what no score reaches, infinite ones neither
    never = torch.nan if low_ST.dtype.is_floating_point else _MAGNITUDE
    queries = low_ST.shape[1]
    low_SL = low_ST if queries == lanes else low_ST.new_full((len(low_ST), lanes), never)
    low_SL[:, :queries] = low_ST
    if bool(given_up_T.any()):
        low_SL[:, :queries][:, given_up_T] = never
    found: NDArray[Any] = low_SL.numpy()
    return found


def _as_integers(
    score_NL: torch.Tensor, low_ST: torch.Tensor, turned: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """bfloat16 numbers as integers, which compare in a third of the time. Positive numbers are in
    the order of their bits; negative ones are `turned` into that order if they matter."""
    if score_NL.dtype != torch.bfloat16:
        return score_NL, low_ST
    if not turned:
        return score_NL.view(torch.int16), low_ST.view(torch.int16)
    low_ST[low_ST == 0] = -0.0  # which is below the positive zero now
    score, low = score_NL.view(torch.int16), low_ST.view(torch.int16)
    turn(score)
    low ^= (low >> 15) & _MAGNITUDE
    return score, low


def _as_scores(taken_C: NDArray[Any], turned: bool) -> NDArray[np.float32]:
    if taken_C.dtype == np.float32:
        return taken_C
    bits_C = taken_C ^ ((taken_C >> 15) & np.int16(_MAGNITUDE)) if turned else taken_C
    return (bits_C.astype(np.int32) << 16).view(np.float32)


def _thresholds(found: Found, block: Block) -> torch.Tensor:
    """Product thresholds (S, T) that correspond to the floor."""
    asked = found.asked
    floors_T = torch.where(
        found.floors.isinf(), found.floors, found.floors - found.floors.abs() * 2.0**-21
    )
    low_ST = torch.addcmul(
        floors_T - asked.constant, block.norms_S[:, None], asked.of_norm, value=-1
    )
    return low_ST.addcmul_(block.residuals_S[:, None], asked.of_residual, value=-1)


def _upper(found: Found, block: Block) -> torch.Tensor:
    """Products (S, T) above which a row's score is certainly not below the ceiling; -inf where the
    search of a query was given up."""
    asked, ceilings_T = found.asked, found.ceilings
    assert ceilings_T is not None
    # No product is larger: where a ceiling is infinite, scores are subtracted from a number.
    most_T = asked.lengths * block.longest * 1.01 + _TINY
    high_T = torch.minimum(ceilings_T + ceilings_T.abs().clamp_max(1e38) * 2.0**-21, most_T)
    high_T = torch.where(found.given_up, -torch.inf, high_T + asked.constant)
    high_ST = torch.addcmul(high_T, block.norms_S[:, None], asked.of_norm)
    return high_ST.addcmul_(block.residuals_S[:, None], asked.of_residual)
