"""The part of the loss that follows the scores of a teacher (`loss.teacher`).

For a query, its target and its own negatives of the step: the KL divergence of the softmax of our
scores (divided by the loss's temperature) from the softmax of the teacher's (divided by
`loss.teacher_temperature`). As in ColBERTv2 (2112.01488); sentence-transformers has it as
DistillKLDivLoss. Documents are found by their row of the bank, so it does not matter how a step is
cut.

Shapes: S queries of a step, B of a micro-batch, C documents of a query (the first is its target), K
documents of the step, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ttf.config.loss_schema import LossConfig
from ttf.data.loader import StepHead


@dataclass(frozen=True, kw_only=True)
class Goals:
    """What a teacher wants of the queries of a step."""

    place_SC: Tensor  # Among the documents of the step; 0 where none counts.
    log_share_SC: Tensor  # The logarithm of the teacher's softmax; -inf where none counts.
    weight_S: Tensor  # loss.teacher, or 0 without scores.

    def mixed(
        self, loss_B: Tensor, q_BD: Tensor, docs_KD: Tensor, scale: Tensor, start: int, stop: int
    ) -> Tensor:
        """The loss (B,) of the queries `start..stop`; `loss_B` is their contrastive one."""
        here = slice(start, stop)
        apart_B = _divergence(
            q_BD, docs_KD, scale, self.place_SC[here], self.log_share_SC[here].to(loss_B.dtype)
        )
        return torch.lerp(loss_B, apart_B, self.weight_S[here].to(loss_B.dtype))


def goals_of(head: StepHead, loss: LossConfig, device: torch.device) -> Goals | None:
    """None if the run does not use the scores of a teacher."""
    taught = head.taught
    if taught is None:
        return None
    counts_SC = taught.documents_SC >= 0
    scores_SC = np.where(counts_SC, taught.scores_SC.astype(np.float64), -math.inf)
    scores_SC[~counts_SC[:, 0], 0] = (
        0.0  # Without scores: the target alone, from which nothing is apart.
    )
    shares_SC = torch.log_softmax(torch.from_numpy(scores_SC) / loss.teacher_temperature, dim=1)
    documents_SC = np.where(counts_SC, taught.documents_SC, head.doc_ids[0])
    return Goals(
        place_SC=torch.from_numpy(np.searchsorted(head.doc_ids, documents_SC)).to(device),
        log_share_SC=shares_SC.float().to(device),
        weight_S=torch.from_numpy(np.where(counts_SC[:, 0], loss.teacher, 0.0)).float().to(device),
    )


def _divergence(
    q_BD: Tensor, docs_KD: Tensor, scale: Tensor, place_BC: Tensor, log_share_BC: Tensor
) -> Tensor:
    dtype = log_share_BC.dtype
    # Its backward pass adds in one order, as that of an index does not.
    docs_BCD = torch.nn.functional.embedding(place_BC, docs_KD.to(dtype))
    with torch.autocast(q_BD.device.type, enabled=False):
        logits_BC = (docs_BCD @ (q_BD.to(dtype) * scale.to(dtype))[:, :, None]).squeeze(2)
    counts_BC = log_share_BC > -math.inf
    ours_BC = torch.log_softmax(logits_BC.masked_fill(~counts_BC, -math.inf), dim=1)
    # Zero where none counts: infinity less infinity is no number.
    apart_BC = (log_share_BC - ours_BC).masked_fill(~counts_BC, 0.0)
    return (log_share_BC.exp() * apart_BC).sum(dim=1)
