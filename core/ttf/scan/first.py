"""The first pass: products of a block of the bank with tiles of queries, reduced to group maxima.

A group is every 64th row of a block: its maximum is then taken over whole vectors of neighbours,
which costs a tenth of the product. Only groups that reach a query's floor are looked into.

Shapes: T queries of a tile, N rows of a block, M rows of a group, G groups, H groups looked into,
C pairs found.
"""

from __future__ import annotations

import numpy as np
import torch

from ttf.scan.bounds import SAFE
from ttf.scan.found import Bounds, Found

BLOCK_ROWS = 4096
GROUPS = 64


class Block:
    """Rows first.. of the bank, padded to whole groups, and the bounds of its groups."""

    def __init__(
        self, rows_ND: torch.Tensor, first: int, norms_N: torch.Tensor, residuals_N: torch.Tensor
    ) -> None:
        self.first, self.count = first, len(rows_ND)
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
    score_TN[:, block.count :] = -torch.inf
    score_TMG = score_TN.view(num, -1, GROUPS)
    low_TG = _thresholds(found, block).to(score_TN.dtype)
    query_H, group_H = _groups_that_reach(score_TMG, low_TG)
    if not len(query_H):
        return
    value_HM = score_TMG.transpose(1, 2)[query_H, group_H]
    reaches_HM = value_HM >= low_TG[query_H, group_H, None]
    if block.count < width:  # a floor may be -inf, too
        reaches_HM &= value_HM > -torch.inf
    # torch's nonzero took as long as everything else here together
    place_C = torch.from_numpy(np.flatnonzero(reaches_HM.numpy()))
    at_C, member_C = place_C // value_HM.shape[1], place_C % value_HM.shape[1]
    row_C = block.first + member_C * GROUPS + group_H[at_C]
    found.add(query_H[at_C], row_C, value_HM.view(-1)[place_C], bounds)


def _groups_that_reach(
    score_TMG: torch.Tensor, low_TG: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positive bfloat16 numbers are in the order of their bits, and maxima of whole numbers take a
    third of the time; a group without a positive number has a negative one as its maximum."""
    if score_TMG.dtype == torch.bfloat16 and bool((low_TG > 0).all()):
        score_TMG, low_TG = score_TMG.view(torch.int16), low_TG.view(torch.int16)
    query_H, group_H = (score_TMG.amax(1) >= low_TG).nonzero(as_tuple=True)
    return query_H, group_H


def _thresholds(found: Found, block: Block) -> torch.Tensor:
    """What the product must reach, (T, G), for the score to reach the floor."""
    floors_T = torch.where(
        found.floors.isinf(), found.floors, found.floors - found.floors.abs() * 2.0**-21
    )
    low_TG = floors_T[:, None] - found.asked.error(block.norms_G, block.residuals_G)
    return torch.where(found.given_up[:, None], torch.inf, low_TG)
