"""Exact ranks of known documents against the whole bank, in blocks, without any top-k list.

The rank of a document is the number of bank rows that score higher (equal scores: the smaller row
first). Each block's scores are reduced to maxima over groups of 64 first; only groups that can hold
a better row are looked into, because counting, not the product, would be the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

GROUP = 64
_TILE_ROWS = 1024
TIE = 1e-6
"""Scores this close, relative to the lengths of the vectors, are one score: two products of the
same vectors differ by their rounding."""


def ranks_in_blocks(
    q_QD: torch.Tensor,
    positive_scores_QP: torch.Tensor,
    ties_QP: torch.Tensor,
    positives_QP: NDArray[np.int64],
    blocks: Iterable[tuple[int, torch.Tensor]],
) -> NDArray[np.int64]:
    """Rank (from 0) of each positive, -1 where there is none; blocks are (first row, vectors).

    Scores within `ties_QP` of a positive's count as equal to it.
    """
    ids_QP = torch.from_numpy(positives_QP)
    # where there is no positive nothing is better, so nothing is looked into
    low_QP = torch.where(ids_QP >= 0, positive_scores_QP - ties_QP, torch.inf)
    high_QP = positive_scores_QP + ties_QP
    counts_QP = torch.zeros(positives_QP.shape, dtype=torch.int64)
    for first, docs_ND in blocks:
        padded_ND = _padded(docs_ND)
        for start in range(0, len(q_QD), _TILE_ROWS):
            tile = slice(start, start + _TILE_ROWS)
            scores_BN = q_QD[tile] @ padded_ND.T
            scores_BN[:, len(docs_ND) :] = -torch.inf
            for column in range(positives_QP.shape[1]):
                counts_QP[tile, column] += _count_better(
                    scores_BN,
                    low_QP[tile, column],
                    high_QP[tile, column],
                    ids_QP[tile, column],
                    first,
                )
    ranks: NDArray[np.int64] = torch.where(ids_QP >= 0, counts_QP, -1).numpy()
    return ranks


def _padded(docs_ND: torch.Tensor) -> torch.Tensor:
    missing = -len(docs_ND) % GROUP
    return torch.nn.functional.pad(docs_ND, (0, 0, 0, missing)) if missing else docs_ND


def _count_better(
    scores_BN: torch.Tensor,
    low_B: torch.Tensor,
    high_B: torch.Tensor,
    ids_B: torch.Tensor,
    first: int,
) -> torch.Tensor:
    """For each query, the rows of this block before its positive."""
    groups_BGM = scores_BN.view(len(scores_BN), -1, GROUP)
    query_K, group_K = (groups_BGM.amax(-1) >= low_B[:, None]).nonzero(as_tuple=True)
    found_KM = groups_BGM[query_K, group_K]
    rows_KM = first + group_K[:, None] * GROUP + torch.arange(GROUP)
    better_KM = found_KM > high_B[query_K, None]
    tied_KM = (found_KM >= low_B[query_K, None]) & ~better_KM
    better_KM |= tied_KM & (rows_KM < ids_B[query_K, None])
    better_KM &= rows_KM != ids_B[query_K, None]
    counts_B = torch.zeros(len(scores_BN), dtype=torch.int64)
    return counts_B.index_add_(0, query_K, better_KM.sum(-1))
