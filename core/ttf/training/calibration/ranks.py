"""Ranks of held-out pairs among some documents, for several strengths of the correction at once.

One product serves all strengths, in float32: a rank may be off where two scores differ by rounding,
which is the same for all of them. The metrics of a run come from `ttf.training.evaluation`.

Shapes: Q queries, T of a tile, N documents of a block, P positives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress
from ttf.machine.gemm import is_float32, set_to
from ttf.training.documents import Documents
from ttf.training.evaluation import TIE
from ttf.training.team import ALONE, Team

_TILE: Final = 512


class Ranked:
    """Some documents (rows `ids` of the bank, ascending) with their hubness."""

    def __init__(
        self,
        documents: Documents,
        ids: NDArray[np.int64],
        hubness: NDArray[np.float32],
        advance: Progress,
    ) -> None:
        self._documents = documents
        self._hubness = torch.from_numpy(hubness)
        self._advance = advance
        self.ids = ids

    def blocks(self, team: Team = ALONE) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Vectors and hubness of this process's part, in order."""
        step = self._documents.block_rows
        own = team.own(len(self.ids), step)
        for start in range(own.start, own.stop, step):
            here = slice(start, min(start + step, own.stop))
            yield self._documents.vectors(self.ids[here]), self._hubness[here]
            self._advance(here.stop, len(self.ids))

    def of(self, bank_rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors and hubness of some of them."""
        places = torch.from_numpy(np.searchsorted(self.ids, bank_rows))
        return self._documents.vectors(bank_rows), self._hubness[places]


@torch.inference_mode()
def ranks_by_factor(
    documents: Ranked,
    queries_QD: torch.Tensor,
    known_QP: NDArray[np.int64],
    factors: Sequence[float],
    team: Team = ALONE,
) -> dict[float, NDArray[np.int64]]:
    """Rank (from 0) of each positive (bank rows, among the documents; -1 is padding)."""
    limits = _limits(documents, queries_QD, known_QP, factors)
    counts = {a: np.zeros(known_QP.shape, np.int64) for a in factors}
    with set_to("medium" if is_float32("medium") else "highest"):
        for block_ND, hubness_N in documents.blocks(team):
            for start in range(0, len(queries_QD), _TILE):
                here = slice(start, start + _TILE)
                score_TN = queries_QD[here] @ block_ND.T
                for a in factors:
                    lowered_TN = torch.sub(score_TN, hubness_N, alpha=a)
                    for column in range(known_QP.shape[1]):
                        better_TN = lowered_TN > limits[a][here, column, None]
                        counts[a][here, column] += np.count_nonzero(better_TN.numpy(), axis=1)
    added = team.added("ranks by factor", np.stack(list(counts.values())))
    return {a: np.where(known_QP >= 0, found, -1) for a, found in zip(counts, added, strict=True)}


def _limits(
    documents: Ranked,
    queries_QD: torch.Tensor,
    known_QP: NDArray[np.int64],
    factors: Sequence[float],
) -> dict[float, torch.Tensor]:
    """The scores that a document must exceed to come before a positive; scores that differ by
    rounding alone do not."""
    limits = {a: torch.full(known_QP.shape, torch.inf) for a in factors}
    for column in range(known_QP.shape[1]):
        there = np.flatnonzero(known_QP[:, column] >= 0)
        vectors_KD, hubness_K = documents.of(known_QP[there, column])
        asked_KD = queries_QD[torch.from_numpy(there)]
        score_K = (asked_KD * vectors_KD).sum(-1)
        tie_K = TIE * asked_KD.norm(dim=-1) * vectors_KD.norm(dim=-1)
        for a, limit_QP in limits.items():
            limit_QP[torch.from_numpy(there), column] = score_K - a * hubness_K + tie_K
    return limits
