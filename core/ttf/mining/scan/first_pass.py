"""The first pass: products of a block of the bank with tiles of queries, reduced to group maxima.

A group is every 64th of 1,024 rows: its maximum is then taken over whole vectors of neighbours,
which costs a fiftieth of the product. Only groups that reach a query's floor are looked into.

Shapes: T queries of a tile, N rows of a block, S spans of it, G groups of a span, M rows of a
group, H groups looked into, C pairs found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.bounds import SAFE
from ttf.mining.scan.pairs import Bounds, Found

BLOCK_ROWS = 4096
GROUPS = 64
MEMBERS = 16
_MAGNITUDE = 0x7FFF
_TINY = 1e-30


class Block:
    """Rows first.. of the bank, padded to whole groups, and the bounds of its groups."""

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
    """Adds what may reach the floors of `found`; `scratch` holds a tile's scores of a block."""
    unsafe_T = ~(found.asked.lengths * block.longest <= SAFE)
    if bool(unsafe_T.any()):
        found.give_up(unsafe_T)
    num, width = len(found.floors), len(block.rows)
    score_TN = scratch[: num * width].view(num, width)
    torch.mm(found.asked.vectors, block.rows.T, out=score_TN)
    low_TG = _thresholds(found, block)
    turned = score_TN.dtype == torch.bfloat16 and not float(low_TG.amin()) > _TINY
    whole_TN, least_TG = _whole_numbers(score_TN, low_TG.to(score_TN.dtype), turned)
    if bool(found.given_up.any()):
        least_TG[found.given_up] = _never(least_TG.dtype)
    place_C = _places(whole_TN, least_TG)
    query_C, column_C = place_C // width, place_C % width
    if block.count < width:
        held = column_C < block.count
        place_C, query_C, column_C = place_C[held], query_C[held], column_C[held]
    if len(place_C):
        score_C = _as_scores(whole_TN.numpy().ravel().take(place_C), turned)
        found.add(query_C, block.first + column_C, score_C, bounds)


def _places(score_TN: torch.Tensor, low_TG: torch.Tensor) -> NDArray[np.int64]:
    """Where, counted through (T, N), scores reach what their group must."""
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


def _whole_numbers(
    score_TN: torch.Tensor, low_TG: torch.Tensor, turned: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """bfloat16 numbers as whole numbers, which are compared in a third of the time: positive ones
    are in the order of their bits; negative ones are `turned` into it where they matter."""
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


def _never(dtype: torch.dtype) -> float:
    """What no score reaches, infinite ones neither."""
    return torch.nan if dtype.is_floating_point else _MAGNITUDE


def _thresholds(found: Found, block: Block) -> torch.Tensor:
    """What the product must reach, (T, G), for the score to reach the floor."""
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
