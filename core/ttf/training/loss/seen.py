"""What a pass over the bank sees on its way: ranks of targets, suspects, the hardest negatives.

Nothing sorts a block: its logits are reduced to maxima of groups of 64 documents, and only groups
that can hold an answer are looked into.

Shapes: B queries, N documents of a block in G groups of M, K pairs (query, group) looked into.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 64


@dataclass(frozen=True, kw_only=True)
class Found:
    """Per query of a step; its known positives aside."""

    ranks_B: Tensor
    """Documents that score higher than the target, counted up to `deepest`."""
    above_B: Tensor
    """Documents at or above the query's line (the target's score less the margin): what the
    filter of [negatives] would not trust as a negative; counted up to `deepest`."""
    hardest_ids_BK: Tensor
    hardest_logits_BK: Tensor
    """The K best negatives, best first; -1 and -inf where there are fewer."""


class Finder:
    """Looks at each block's logits once. Given a step's target logits and lines (both (B,))."""

    def __init__(
        self, target_logit_B: Tensor, line_B: Tensor, *, deepest: int, hardest: int = 0
    ) -> None:
        self._target_B, self._deepest = target_logit_B, deepest
        self._line_B = torch.minimum(line_B, target_logit_B)
        self._ranks_B = torch.zeros_like(target_logit_B, dtype=torch.int64)
        self._above_B = torch.zeros_like(self._ranks_B)
        shape = (len(target_logit_B), hardest)
        self._ids_BK = torch.full(shape, -1, dtype=torch.int64, device=target_logit_B.device)
        self._best_BK = target_logit_B.new_full(shape, -torch.inf)

    def __call__(self, first: int, logits_BN: Tensor) -> Tensor:
        missing = -logits_BN.shape[1] % GROUP
        if missing:
            logits_BN = torch.nn.functional.pad(logits_BN, (0, missing), value=-torch.inf)
        groups_BGM = logits_BN.view(len(logits_BN), -1, GROUP)
        most_BG = groups_BGM.amax(-1)
        self._count(groups_BGM, most_BG)
        if self._ids_BK.shape[1]:
            self._keep_hardest(first, groups_BGM, most_BG)
        return most_BG.amax(1, keepdim=True)

    def found(self) -> Found:
        return Found(
            ranks_B=self._ranks_B.clamp(max=self._deepest),
            above_B=self._above_B.clamp(max=self._deepest),
            hardest_ids_BK=self._ids_BK,
            hardest_logits_BK=self._best_BK,
        )

    def _count(self, groups_BGM: Tensor, most_BG: Tensor) -> None:
        """Queries whose counts are full are not looked into: what an untrained tower costs."""
        low_B = torch.where(self._ranks_B < self._deepest, self._target_B, torch.inf)
        low_B = torch.where(self._above_B < self._deepest, self._line_B, low_B)
        query_K, group_K = (most_BG >= low_B[:, None]).nonzero(as_tuple=True)
        if not len(query_K):
            return
        found_KM = groups_BGM[query_K, group_K]
        higher_K = (found_KM > self._target_B[query_K, None]).sum(-1)
        above_K = (found_KM >= self._line_B[query_K, None]).sum(-1)
        self._ranks_B.index_add_(0, query_K, higher_K)
        self._above_B.index_add_(0, query_K, above_K)

    def _keep_hardest(self, first: int, groups_BGM: Tensor, most_BG: Tensor) -> None:
        """The K best of a block lie in the K groups with the highest maxima."""
        wanted = self._ids_BK.shape[1]
        hopeful_B = (most_BG > self._best_BK[:, -1:]).sum(1)
        look_into = min(wanted, int(hopeful_B.max()))
        if not look_into:
            return
        group_BK = most_BG.topk(look_into, dim=1).indices
        rows_BK1 = torch.arange(len(most_BG), device=most_BG.device)[:, None]
        new_BK = groups_BGM[rows_BK1, group_BK].flatten(1)
        ids_BKM = group_BK[:, :, None] * GROUP + torch.arange(GROUP, device=most_BG.device)
        ids_BK = torch.where(new_BK > -torch.inf, first + ids_BKM.flatten(1), -1)
        best_BK = torch.cat([self._best_BK, new_BK], dim=1)
        self._best_BK, place_BK = best_BK.topk(wanted, dim=1)
        self._ids_BK = torch.cat([self._ids_BK, ids_BK], dim=1).gather(1, place_BK)
