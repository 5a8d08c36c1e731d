"""Counts during a pass over the bank: ranks of targets, and suspects before them.

Nothing sorts a block: its logits are reduced to maxima of groups of 64 documents, and only groups
that can hold an answer are read.

Shapes: B queries, N documents of a block in G groups of M, K pairs (query, group) read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 64


@dataclass(frozen=True, kw_only=True)
class RankCounts:
    """Per query of a step, without its known positives."""

    ranks_B: Tensor  # Documents that score higher than the target, counted up to `deepest`.
    # Documents at or above the query's line (the target's score less the margin), which the filter
    # of [negatives] would not trust as negatives; counted up to `deepest`.
    above_B: Tensor


class RankCounter:
    """Looks at each block's logits once. Takes a step's target logits and lines (both (B,))."""

    def __init__(self, target_logit_B: Tensor, line_B: Tensor, *, deepest: int) -> None:
        self._target_B = target_logit_B
        self._deepest = deepest
        self._line_B = torch.minimum(line_B, target_logit_B)
        self._ranks_B = torch.zeros_like(target_logit_B, dtype=torch.int64)
        self._above_B = torch.zeros_like(self._ranks_B)

    def __call__(self, logits_BN: Tensor) -> Tensor:
        missing = -logits_BN.shape[1] % GROUP
        if missing:
            logits_BN = torch.nn.functional.pad(logits_BN, (0, missing), value=-torch.inf)
        groups_BGM = logits_BN.view(len(logits_BN), -1, GROUP)
        most_BG = groups_BGM.amax(-1)
        self._count(groups_BGM, most_BG)
        return most_BG.amax(1, keepdim=True)

    def counts(self) -> RankCounts:
        return RankCounts(
            ranks_B=self._ranks_B.clamp(max=self._deepest),
            above_B=self._above_B.clamp(max=self._deepest),
        )

    def _count(self, groups_BGM: Tensor, most_BG: Tensor) -> None:
        # Queries with full counts are skipped: this bounds the cost with an untrained tower.
        low_B = torch.where(self._ranks_B < self._deepest, self._target_B, torch.inf)
        low_B = torch.where(self._above_B < self._deepest, self._line_B, low_B)
        query_K, group_K = (most_BG >= low_B[:, None]).nonzero(as_tuple=True)
        if not len(query_K):
            return
        logits_KM = groups_BGM[query_K, group_K]
        higher_K = (logits_KM > self._target_B[query_K, None]).sum(-1)
        above_K = (logits_KM >= self._line_B[query_K, None]).sum(-1)
        self._ranks_B.index_add_(0, query_K, higher_K)
        self._above_B.index_add_(0, query_K, above_K)
