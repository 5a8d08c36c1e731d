"""The first pass: products of a block of the bank with tiles of queries, reduced to group maxima.

A group is 8 neighbouring rows. The scores of a row lie side by side, so that maxima are computed
over whole vectors of queries, which costs a fiftieth of the product. Only groups that reach a
query's floor are read. Where queries have ceilings, scores above them are moved below all others
before that, in one more pass over the block.

Shapes: T queries of a tile, L lanes (T with padding), N rows of a block, S spans of rows that share
a threshold, M rows of a group, H groups read, C found pairs of a query and a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import padded_rows
from ttf.mining.scan.error_bounds import SAFE, Rounded
from ttf.mining.scan.found_pairs import Bounds, Found
from ttf.mining.scan.score_floors import BLOCK_ROWS, ranked_scores, usual

SPAN = 64
_MEMBERS = 8
_GROUPS = SPAN // _MEMBERS
_MAGNITUDE = _LARGEST = 0x7FFF
_TINY = 1e-30


class Scratch:
    """The memory for one thread's products."""

    def __init__(self, queries: int, dtype: torch.dtype) -> None:
        lanes = padded_rows(queries)
        self.scores = torch.empty(BLOCK_ROWS * lanes, dtype=dtype)
        self.maxima = torch.empty(BLOCK_ROWS // _MEMBERS * lanes, dtype=dtype)


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
    turned = score_NL.dtype == torch.bfloat16 and not float(low_ST.amin()) > _TINY
    whole_NL, low_ST = _as_integers(score_NL, low_ST.to(score_NL.dtype), turned)
    low_SL = _in_lanes(low_ST, lanes, found.given_up)
    moved_SL = None
    if found.ceilings is not None:
        high_ST = _as_levels(_upper(found, block, score_NL.dtype), turned)
        low_SL, moved_SL = _moved_below(whole_NL, low_SL, _in_lanes(high_ST, lanes, None))
    place_C, level_C = _reaching(whole_NL, low_SL, scratch)
    row_C = place_C // lanes
    query_C = place_C - row_C * lanes
    if moved_SL is not None:
        level_C -= moved_SL.ravel().take(row_C // SPAN * lanes + query_C)
    if count < len(score_NL):
        held = row_C < count
        query_C, row_C, level_C = query_C[held], row_C[held], level_C[held]
    if len(row_C):
        score_C = _as_scores(level_C, turned)
        found.add(query_C, block.ids.start + block.ids.step * row_C, score_C, bounds)
    if block.rank and not first:
        found.guess_again(block.rank, block.usual)


def _reaching(
    score_NL: torch.Tensor, low_SL: NDArray[Any], scratch: Scratch
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Scores that reach the threshold of their span, and their places, counted through (N, L)."""
    rows, lanes = score_NL.shape
    best = scratch.maxima.view(score_NL.dtype)[: rows // _MEMBERS * lanes].view(-1, lanes)
    torch.amax(score_NL.view(-1, _MEMBERS, lanes), 1, out=best)
    # torch's comparisons and nonzero take several times as long as numpy's
    reaches = best.numpy().reshape(-1, _GROUPS, lanes) >= low_SL[:, None]
    at_H = np.flatnonzero(reaches)
    group_H = at_H // lanes
    low_H = low_SL.ravel().take(at_H - (group_H - group_H // _GROUPS) * lanes)
    first_H = at_H + group_H * ((_MEMBERS - 1) * lanes)
    place_MH = first_H + np.arange(_MEMBERS)[:, None] * lanes
    level_MH = score_NL.numpy().ravel().take(place_MH)
    found_C = np.flatnonzero(level_MH >= low_H)
    return place_MH.ravel().take(found_C), level_MH.ravel().take(found_C)


def _moved_below(
    score_NL: torch.Tensor, low_SL: NDArray[Any], high_SL: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Moves scores above `high_SL` below all others, in place. Returns the new thresholds, and what
    was added to the scores, if they are integers: so much that those above overflow."""
    span_SML = score_NL.view(len(low_SL), SPAN, -1)
    possible_SL = low_SL <= high_SL
    if score_NL.dtype != torch.int16:
        span_SML.masked_fill_(span_SML > torch.from_numpy(high_SL)[:, None], -torch.inf)
        finite_SL = np.maximum(low_SL, np.finfo(np.float32).min)
        return np.where(possible_SL, finite_SL, np.float32(np.nan)), None
    moved_SL = np.where(possible_SL, np.int16(_LARGEST) - high_SL, np.int16(0))
    span_SML += torch.from_numpy(moved_SL)[:, None]
    return np.where(possible_SL, low_SL + moved_SL, np.int16(_LARGEST)), moved_SL


def _in_lanes(low_ST: torch.Tensor, lanes: int, given_up_T: torch.Tensor | None) -> NDArray[Any]:
    """Thresholds (S, L), which nothing reaches where there is no query or its search was given
    up."""
    # what no score reaches, infinite ones neither
    never = torch.nan if low_ST.dtype.is_floating_point else _MAGNITUDE
    queries = low_ST.shape[1]
    low_SL = low_ST if queries == lanes else low_ST.new_full((len(low_ST), lanes), never)
    low_SL[:, :queries] = low_ST
    if given_up_T is not None and bool(given_up_T.any()):
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
    score = score_NL.view(torch.int16)
    score ^= (score >> 15) & _MAGNITUDE
    return score, _as_levels(low_ST, turned)


def _as_levels(limit_ST: torch.Tensor, turned: bool) -> torch.Tensor:
    """bfloat16 limits as the integers that `_as_integers` makes of scores."""
    if limit_ST.dtype != torch.bfloat16:
        return limit_ST
    level = limit_ST.view(torch.int16)
    return level ^ ((level >> 15) & _MAGNITUDE) if turned else level


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


def _upper(found: Found, block: Block, dtype: torch.dtype) -> torch.Tensor:
    """Products (S, T) above which a row's score is certainly not below the ceiling."""
    asked, ceilings_T = found.asked, found.ceilings
    assert ceilings_T is not None
    raised_T = ceilings_T + ceilings_T.abs() * 2.0**-21
    high_T = torch.where(ceilings_T.isinf(), ceilings_T, raised_T) + asked.constant
    high_ST = torch.addcmul(high_T, block.norms_S[:, None], asked.of_norm)
    high_ST.addcmul_(block.residuals_S[:, None], asked.of_residual)
    return high_ST.to(dtype) + 0.0  # no negative zero, which would be below the positive one
