"""The first pass where only rows below a ceiling count: which products lie between two limits.

The maximum of a group says nothing about its rows below a ceiling. So scores are turned into integers
first, among which those above the ceiling come last: those of bfloat16 are moved so far that what is
above overflows; those of float32 are subtracted from the ceiling, and the bits of what is negative
are in order. That takes a part of a block at a time, which stays in the cache of a core.

Shapes: as in `ttf.mining.scan.first_pass`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SPAN = 64
MEMBERS = 8
_GROUPS = SPAN // MEMBERS
_PART = 8  # Spans that are turned together.
_MAGNITUDE = 0x7FFF
_LARGEST = np.int16(0x7FFF)
_TINY = 1e-30


def counted_above(score_NL: torch.Tensor, high_ST: torch.Tensor, count: int) -> NDArray[np.int64]:
    """(T,) how many of the first `count` rows are above the limit of their span."""
    num = high_ST.shape[1]
    high_SL = np.full((len(high_ST), score_NL.shape[1]), np.inf, np.float32)
    high_SL[:, :num] = high_ST.to(score_NL.dtype).float().numpy()
    found_L = np.zeros(score_NL.shape[1], np.int64)
    step = _PART * SPAN
    for at in range(-(-count // step)):
        rows = score_NL[at * step : (at + 1) * step]
        limits = high_SL[at * _PART : (at + 1) * _PART, None]
        if rows.dtype == torch.bfloat16:
            # Bits of numbers above a positive limit are those of larger integers.
            bits = rows.view(torch.int16).numpy()
            top = _bits(limits, turned=False)
            if (limits <= 0).any():
                own = torch.empty(rows.shape, dtype=torch.int16)
                _turn_into(rows.view(torch.int16), own, torch.empty_like(own))
                bits, top = own.numpy(), _bits(limits + np.float32(0), turned=True)
            above = bits.reshape(len(limits), SPAN, -1) > top
        else:
            above = rows.numpy().reshape(len(limits), SPAN, -1) > limits
        above_SL = np.add.reduce(above.view(np.int8), axis=1, dtype=np.int8)
        found_L += np.add.reduce(above_SL, axis=0, dtype=np.int16)
    missing = len(score_NL) - count  # zeros, in the last span
    if missing:
        found_L -= missing * (high_SL[-1] < 0)
    return found_L[:num]


def reaching_below(
    score_NL: torch.Tensor, low_ST: torch.Tensor, high_ST: torch.Tensor, scratch: torch.Tensor
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Scores between the limits (S, T) of their span, the limits included, and their places, counted
    through (N, L). `scratch`: a number of the scores' type for each group and lane."""
    lanes = score_NL.shape[1]
    low_SL, high_SL = (np.full((len(low_ST), lanes), np.nan, np.float32) for _ in ("low", "high"))
    for limit_ST, into_SL in ((low_ST, low_SL), (high_ST, high_SL)):
        into_SL[:, : low_ST.shape[1]] = limit_ST.to(score_NL.dtype).float().numpy()
    possible_SL = low_SL <= high_SL
    if not possible_SL.any():
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if score_NL.dtype == torch.bfloat16:
        reaches = _of_bfloat16(score_NL, low_SL, high_SL, possible_SL, scratch)
    else:
        reaches = _of_float32(score_NL, low_SL, high_SL, possible_SL, scratch)
    at_H = np.flatnonzero(reaches)
    group_H = at_H // lanes
    limit_H = at_H - (group_H - group_H // _GROUPS) * lanes
    first_H = at_H + group_H * ((MEMBERS - 1) * lanes)
    place_MH = first_H + np.arange(MEMBERS)[:, None] * lanes
    score_MH = _taken(score_NL, place_MH)
    between_MH = score_MH >= low_SL.ravel().take(limit_H)
    between_MH &= score_MH <= high_SL.ravel().take(limit_H)
    found_C = np.flatnonzero(between_MH)
    return place_MH.ravel().take(found_C), score_MH.ravel().take(found_C)


def turn(bits: torch.Tensor) -> None:
    """Bits (N, L) of bfloat16 numbers, as integers in the order of the numbers; -0 is below 0."""
    sign = torch.empty((_PART * SPAN, bits.shape[1]), dtype=torch.int16)
    for start in range(0, len(bits), len(sign)):
        rows = bits[start : start + len(sign)]
        _turn_into(rows, rows, sign[: len(rows)])


def _turn_into(bits: torch.Tensor, out: torch.Tensor, scratch: torch.Tensor) -> None:
    torch.bitwise_right_shift(bits, 15, out=scratch)
    torch.bitwise_xor(bits, scratch.bitwise_and_(_MAGNITUDE), out=out)


def _of_bfloat16(
    score_NL: torch.Tensor,
    low_SL: NDArray[np.float32],
    high_SL: NDArray[np.float32],
    possible_SL: NDArray[np.bool_],
    scratch: torch.Tensor,
) -> NDArray[np.bool_]:
    """(S, groups of a span, L), of groups with a row between the limits."""
    # Positive numbers are in the order of their bits, and above negative ones.
    turned = not float(low_SL[possible_SL].min()) > _TINY
    low = np.where(low_SL == 0, np.float32(-0.0), low_SL)
    high = np.where(high_SL == 0, np.float32(0.0), high_SL)
    low_bits, high_bits = (_bits(limit_SL, turned) for limit_SL in (low, high))
    moved_SL = np.where(possible_SL, _LARGEST - high_bits, np.int16(0))
    least_SL = np.where(possible_SL, low_bits + moved_SL, _LARGEST)
    moved = torch.from_numpy(moved_SL)
    lanes, step = score_NL.shape[1], _PART * SPAN
    best = scratch.view(torch.int16)[: len(score_NL) // MEMBERS * lanes].view(-1, lanes)
    part, sign = (torch.empty((step, lanes), dtype=torch.int16) for _ in range(2))
    bits_NL = score_NL.view(torch.int16)
    for at in range(-(-len(bits_NL) // step)):
        rows = bits_NL[at * step : (at + 1) * step]
        own, by = part[: len(rows)], moved[at * _PART : (at + 1) * _PART]
        if turned:
            _turn_into(rows, own, sign[: len(rows)])
            rows = own
        spans = (len(by), SPAN, lanes)
        torch.add(rows.view(spans), by[:, None], out=own.view(spans))
        here = best[at * step // MEMBERS :][: len(rows) // MEMBERS]
        torch.amax(own.view(-1, MEMBERS, lanes), 1, out=here)
    reaches: NDArray[np.bool_] = best.numpy().reshape(-1, _GROUPS, lanes) >= least_SL[:, None]
    return reaches


def _of_float32(
    score_NL: torch.Tensor,
    low_SL: NDArray[np.float32],
    high_SL: NDArray[np.float32],
    possible_SL: NDArray[np.bool_],
    scratch: torch.Tensor,
) -> NDArray[np.bool_]:
    """As `_of_bfloat16`. The difference is rounded, which keeps the order: more groups at most."""
    above_SL = np.nextafter(high_SL, np.float32(np.inf))
    with np.errstate(invalid="ignore"):
        furthest_SL = (low_SL - above_SL).view(np.int32)
    furthest_SL = np.where(possible_SL, furthest_SL, np.iinfo(np.int32).min)
    above = torch.from_numpy(above_SL)
    lanes, step = score_NL.shape[1], _PART * SPAN
    best = scratch.view(torch.int32)[: len(score_NL) // MEMBERS * lanes].view(-1, lanes)
    part = torch.empty((step, lanes))
    for at in range(-(-len(score_NL) // step)):
        rows = score_NL[at * step : (at + 1) * step]
        own, top = part[: len(rows)], above[at * _PART : (at + 1) * _PART]
        spans = (len(top), SPAN, lanes)
        torch.sub(rows.view(spans), top[:, None], out=own.view(spans))
        here = best[at * step // MEMBERS :][: len(rows) // MEMBERS]
        torch.amin(own.view(torch.int32).view(-1, MEMBERS, lanes), 1, out=here)
    reaches: NDArray[np.bool_] = best.numpy().reshape(-1, _GROUPS, lanes) <= furthest_SL[:, None]
    return reaches


def _bits(limit_SL: NDArray[np.float32], turned: bool) -> NDArray[np.int16]:
    bits: NDArray[np.int16] = (limit_SL.view(np.int32) >> 16).astype(np.int16)
    return bits ^ ((bits >> 15) & np.int16(_MAGNITUDE)) if turned else bits


def _taken(score_NL: torch.Tensor, place_MH: NDArray[Any]) -> NDArray[np.float32]:
    if score_NL.dtype != torch.bfloat16:
        taken: NDArray[np.float32] = score_NL.numpy().ravel().take(place_MH)
        return taken
    bits = score_NL.view(torch.int16).numpy().ravel().take(place_MH)
    return (bits.astype(np.int32) << 16).view(np.float32)
