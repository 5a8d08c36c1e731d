"""The first floors of queries: scores of some rank in a part of the bank.

A guess: the certificate finds a floor that is too high, and one that is too low costs time only.
The part is a sample that is scored beforehand; a small bank is read in an order in which every
block is one.

Shapes: T queries, N rows of the part, G groups of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.error_bounds import Asked, Rounded, as_rounded

BLOCK_ROWS = 4096
MIXED_BYTES = 64 << 20  # Of a bank in bfloat16: to read it in another order is cheap.
_LAST_SHARE = 0.6  # Later, a better floor leaves out too few rows.
_SHARE = 32
_LEAST_ROWS = 4096
_RUN = 16  # Neighbours that are read together: storage is read in pages, not rows.
_SAFETY = 3.0  # Standard deviations of the number of the k best rows in a part.
_MOST_GROUPED = 16
_HALF_STEP = 2.0**-9  # Of bfloat16.
_LARGEST = 0x7FFF
_TOGETHER = 512  # Rows that stay in the cache of a core; a multiple of all groups.
# Of a proven error bound: hardly any product is further off. For guesses.
LIKELY = 1 / 8


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Of each query, the score of some rank in a part of the bank, and the best one there."""

    score: torch.Tensor
    best: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Usual:
    """The bounds of a usual row of a part."""

    norm: torch.Tensor
    residual: torch.Tensor


def usual(norms_N: torch.Tensor, residuals_N: torch.Tensor) -> Usual:
    return Usual(norm=norms_N.median(), residual=residuals_N.median())


def rank_in(k: int, share: float) -> int:
    """A rank in a random part of the bank whose score is hardly above the k-th best of all."""
    expected = k * share
    return math.ceil(expected + _SAFETY * math.sqrt(expected * (1 - share))) + 1


def can_be_ranked(rank: int, rows: int) -> bool:
    return 2 * rank <= rows


def guessed(
    ranked: Ranked, asked: Asked, row: Usual, *, half: bool, below: bool = False
) -> torch.Tensor:
    """Floors (T,) from a part.

    Lowered by what rounding can do to the score, and where the best rows of the part are so near to
    one another that the first pass cannot tell them apart, below all of them. With ceilings
    (`below`) the best rows often are, and never end: there by what rounding usually does.
    """
    error_T = asked.error(row.norm[None], row.residual[None])[:, 0]
    step = _HALF_STEP if half else 0.0
    lowered_T = ranked.score - ranked.score.abs() * step
    if below:
        error_T *= LIKELY
        lowered_T -= error_T
    below_T = ranked.best - 2 * (error_T + ranked.best.abs() * step)
    return torch.minimum(lowered_T, below_T).nan_to_num(-torch.inf, -torch.inf, -torch.inf)


def likely_limits(
    ceilings_T: torch.Tensor, asked: Asked, row: Usual, *, half: bool
) -> torch.Tensor:
    """First scores below these most likely belong to rows that are below the ceilings."""
    error_T = asked.error(row.norm[None], row.residual[None])[:, 0]
    step = _HALF_STEP if half else 0.0
    lowered_T = ceilings_T - (LIKELY * error_T + ceilings_T.abs() * step)
    return torch.where(ceilings_T.isinf(), ceilings_T, lowered_T)


def ranked_scores(
    score_NT: torch.Tensor, rank: int, limits_T: torch.Tensor | None = None
) -> Ranked:
    """From first scores of a part, row by row; with limits, of the scores below them."""
    # Maxima of groups represent their rows, which lowers a floor a little.
    group = 1
    while group < _MOST_GROUPED and len(score_NT) // (2 * group) >= 16 * rank:
        group *= 2
    score_NT = score_NT[: len(score_NT) // group * group]
    if limits_T is not None:
        return _ranked_below(score_NT, rank, group, limits_T.to(score_NT.dtype))
    whole = score_NT.view(-1, group, score_NT.shape[1])
    if score_NT.dtype == torch.bfloat16:
        # Positive numbers are in the order of their bits, and above negative ones.
        best_TG = whole.view(torch.int16).amax(1).T.contiguous().numpy()
        ranked_T, best_T = _ranked(best_TG, rank)
        if (ranked_T > 0).all():
            score, best = (
                torch.from_numpy(bits).view(torch.bfloat16) for bits in (ranked_T, best_T)
            )
            return Ranked(score=score.float(), best=best.float())
    ranked_T, best_T = _ranked(whole.amax(1).T.float().contiguous().numpy(), rank)
    return Ranked(score=torch.from_numpy(ranked_T), best=torch.from_numpy(best_T))


def _ranked_below(score_NT: torch.Tensor, rank: int, group: int, limits_T: torch.Tensor) -> Ranked:
    num = score_NT.shape[1]
    slow = np.arange(num)
    score_T, best_T = torch.empty(num), torch.empty(num)
    if score_NT.dtype == torch.bfloat16:
        # Bits of positive numbers, moved so far that those at or above the limit overflow.
        moved_T = np.int16(_LARGEST) - (limits_T.view(torch.int16).numpy() - np.int16(1))
        moved, bits_NT = torch.from_numpy(moved_T), score_NT.view(torch.int16)
        parts = [
            (bits_NT[at : at + _TOGETHER] + moved).view(-1, group, num).amax(1)
            for at in range(0, len(bits_NT), _TOGETHER)
        ]
        best_TG = torch.cat(parts).T.contiguous().numpy()
        ranked_T, highest_T = _ranked(best_TG, rank)
        score_T, best_T = (
            torch.from_numpy(levels_T - moved_T).view(torch.bfloat16).float()
            for levels_T in (ranked_T, highest_T)
        )
        # Only between 0 and the limit is their order that of the numbers.
        slow = np.flatnonzero(~((ranked_T > moved_T) & (limits_T > 0).numpy()))
    if len(slow):
        few_NT = score_NT[:, torch.from_numpy(slow)]
        few_NT = torch.where(few_NT < limits_T[slow], few_NT, -torch.inf)
        best_TG = few_NT.view(-1, group, len(slow)).amax(1).T.float().contiguous().numpy()
        for found_T, into_T in zip(_ranked(best_TG, rank), (score_T, best_T), strict=True):
            into_T[slow] = torch.from_numpy(found_T)
    return Ranked(score=score_T, best=best_T)


def _ranked(table_TG: NDArray[Any], rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rank-th largest of each line, and the largest; several times as fast as topk."""
    best_T = table_TG.max(axis=1)
    place = table_TG.shape[1] - rank
    table_TG.partition(place, axis=1)
    return table_TG[:, place].copy(), best_T


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Every block of this bank is read as an even sample: of each run of `blocks` rows, one."""

    k: int
    blocks: int

    def rank(self, done: int) -> int:
        """The rank after this many blocks whose score is a query's floor; 0: the floor stays."""
        share = done / self.blocks
        again = done & (done - 1) == 0 and share <= _LAST_SHARE
        return rank_in(self.k, share) if again else 0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Some rows, and the rank whose score is a query's floor."""

    part: Rounded
    rank: int

    def floors(
        self, asked: Asked, ceilings_T: torch.Tensor | None = None, *, half: bool
    ) -> torch.Tensor:
        """(T,)"""
        score_NT = asked.scores_by_row(self.part.half)[:, : len(asked.lengths)]
        row = usual(torch.from_numpy(self.part.norms), torch.from_numpy(self.part.residuals))
        limits_T = None
        if ceilings_T is not None:
            limits_T = likely_limits(ceilings_T, asked, row, half=half)
        ranked = ranked_scores(score_NT, self.rank, limits_T)
        return guessed(ranked, asked, row, half=half, below=limits_T is not None)


Part = Mixed | Sample


def part_of(bank: HalfBank, k: int, *, half: bool, mixed_bytes: int) -> Part | None:
    """What the first floors come from; None if the rank were too low in it."""
    rows, dim = bank.shape
    blocks = -(-rows // BLOCK_ROWS)
    if 2 * rows * dim <= mixed_bytes:
        fits = can_be_ranked(rank_in(k, 1 / blocks), rows // blocks)
        return Mixed(k=k, blocks=blocks) if fits else None
    return _sampled(bank, k, half=half)


def blocks_of(rows: int, part: Part | None) -> list[tuple[range, int]]:
    """The rows of each block, and the rank for floors after it (see `Mixed.rank`)."""
    if isinstance(part, Mixed):
        return [
            (range(first, rows, part.blocks), part.rank(first + 1)) for first in range(part.blocks)
        ]
    return [
        (range(start, min(start + BLOCK_ROWS, rows)), 0) for start in range(0, rows, BLOCK_ROWS)
    ]


def _sampled(bank: HalfBank, k: int, *, half: bool) -> Sample | None:
    """A fixed sample of the bank, spread evenly."""
    num_rows = bank.shape[0]
    wanted = max(_LEAST_ROWS, num_rows // _SHARE)
    if wanted >= num_rows:
        ids = np.arange(num_rows)
    else:
        runs = wanted // _RUN
        begins = np.arange(runs) * (num_rows - _RUN) // (runs - 1)
        ids = (begins[:, None] + np.arange(_RUN)).ravel()
    rank = rank_in(k, len(ids) / num_rows)
    if not can_be_ranked(rank, len(ids)):
        return None
    part = bank.some(ids) if half else as_rounded(torch.from_numpy(bank.rows(ids)))
    return Sample(part=part, rank=rank)
