"""The loss of each query against documents that need no gradient, in one pass over blocks of them.

The running maximum and sum (online softmax) need no logits of earlier blocks, and the weighted sum
of documents is gathered on the way: the gradient by a query costs no second pass.

Shapes: B queries, N documents of a block, D width, P known positives per query, K pairs that do not
count (P and K padded with -1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Block = tuple[int, Tensor]
"""(first document, documents (N, D)); one that is bfloat16 is multiplied in bfloat16."""


Look = Callable[[Tensor], Tensor]
"""Sees each block's logits (B, N) while they are there; gives back their maximum (B, 1)."""
MakeLook = Callable[[Tensor], Look]
"""Makes it from the target's logits (B,)."""


@dataclass(frozen=True, kw_only=True)
class Swept:
    """Of all documents that count, the target aside."""

    top_B1: Tensor
    """The largest logit, the target's included."""
    others_B1: Tensor
    """The sum of exp(logit - top)."""
    pull_BD: Tensor
    """The documents, each by its exp(logit - top)."""


class Excluded:
    """Which documents do not count: some for a query, some for nobody."""

    def __init__(self, documents_BP: NDArray[np.int64], dead_K: NDArray[np.int64] | None = None):
        """Both padded with -1. The target of a query belongs among its documents."""
        flat = documents_BP.reshape(-1)
        order = np.argsort(flat, kind="stable")
        order = order[np.searchsorted(flat[order], 0) :]
        self._columns = flat[order]
        self._rows = order // max(documents_BP.shape[1], 1)
        self._dead = np.empty(0, np.int64) if dead_K is None else np.unique(dead_K[dead_K >= 0])

    def mask(self, first: int, logits_BN: Tensor) -> None:
        """Fills what does not count with -inf, in place."""
        edges = (first, first + logits_BN.shape[1])
        begin, end = np.searchsorted(self._columns, edges)
        if end > begin:
            rows = _tensor(self._rows[begin:end], logits_BN)
            columns = _tensor(self._columns[begin:end] - first, logits_BN)
            logits_BN[rows, columns] = -math.inf
        begin, end = np.searchsorted(self._dead, edges)
        if end > begin:
            logits_BN.index_fill_(1, _tensor(self._dead[begin:end] - first, logits_BN), -math.inf)


def _tensor(values: NDArray[np.int64], like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.device)


def sweep(
    scaled_BD: Tensor,
    target_logit_B1: Tensor,
    blocks: Iterable[Block],
    excluded: Excluded,
    *,
    look: Look | None = None,
    pull: bool = True,
    poison_B1: Tensor | None = None,
) -> Swept:
    """`scaled_BD` are queries times 1 / temperature. Without `pull` its field stays zero.

    An infinite document can give a logit of -inf, which exp would silently turn into 0: where
    documents have not been looked at, `poison_B1` turns NaN for it.
    """
    top_B1 = target_logit_B1.clone()  # finite from the start: no -inf minus -inf
    others_B1 = torch.zeros_like(top_B1)
    pull_BD = torch.zeros_like(scaled_BD)
    half_BD = scaled_BD.bfloat16()
    logits_BN = weights_BN = torch.empty(0)
    for first, docs_ND in blocks:
        half = docs_ND.dtype == torch.bfloat16
        if logits_BN.shape[-1] != len(docs_ND):  # the last block may be shorter
            logits_BN = scaled_BD.new_empty(len(scaled_BD), len(docs_ND))
            weights_BN = logits_BN.bfloat16() if half else logits_BN
        if half:
            logits_BN.copy_(torch.mm(half_BD, docs_ND.T, out=weights_BN))
        else:
            torch.mm(scaled_BD, docs_ND.T, out=logits_BN)
        if poison_B1 is not None:
            poison_B1.add_(logits_BN.sum(1, keepdim=True) * 0.0)
        excluded.mask(first, logits_BN)
        most_B1 = logits_BN.amax(1, keepdim=True) if look is None else look(logits_BN)
        higher_B1 = torch.maximum(top_B1, most_B1)
        faded_B1 = (top_B1 - higher_B1).exp_()
        top_B1 = higher_B1
        logits_BN.sub_(top_B1)
        if half:
            weights_BN.copy_(logits_BN)
        weights_BN.exp_()
        others_B1.mul_(faded_B1).add_(weights_BN.sum(1, keepdim=True, dtype=others_B1.dtype))
        if not pull:
            continue
        pull_BD.mul_(faded_B1)
        if half:
            pull_BD.add_(torch.mm(weights_BN, docs_ND))
        else:
            pull_BD.addmm_(weights_BN, docs_ND)
    return Swept(top_B1=top_B1, others_B1=others_B1, pull_BD=pull_BD)


def swept_loss(
    q_BD: Tensor,
    scale: Tensor,
    target_BD: Tensor,
    blocks: Iterable[Block],
    excluded: Excluded,
    *,
    make_look: MakeLook | None = None,
    checked: bool = True,
) -> Tensor:
    """The loss (B,): -log softmax of each target among itself and what is not excluded.

    Gradients go to the queries and to `scale` (1 / temperature). The target's own logit is
    computed from `target_BD` at full precision; it must be excluded from the blocks. Documents
    that are not `checked` to be finite make the loss NaN where they are not.
    """
    loss = _Swept.apply(  # type: ignore[no-untyped-call]
        q_BD, scale, target_BD, blocks, excluded, make_look, checked
    )
    return cast("Tensor", loss)


class _Swept(torch.autograd.Function):
    """Keeps two (B, D) matrices for backward, whatever the number of documents."""

    @staticmethod
    def forward(
        ctx: Any,
        q_BD: Tensor,
        scale: Tensor,
        target_BD: Tensor,
        blocks: Iterable[Block],
        excluded: Excluded,
        make_look: MakeLook | None,
        checked: bool,
    ) -> Tensor:
        pull = any(ctx.needs_input_grad[:2])
        with torch.autocast(q_BD.device.type, enabled=False):
            scaled_BD = q_BD * scale
            logit_B1 = (scaled_BD * target_BD).sum(1, keepdim=True)
            poison_B1 = None if checked else torch.zeros_like(logit_B1)
            swept = sweep(
                scaled_BD,
                logit_B1,
                blocks,
                excluded,
                look=None if make_look is None else make_look(logit_B1[:, 0]),
                pull=pull,
                poison_B1=poison_B1,
            )
            total_B1 = swept.others_B1 + (logit_B1 - swept.top_B1).exp()
            if pull:
                # softmax - 1 at the target, without the cancellation
                away_BD = swept.pull_BD.sub_(swept.others_B1 * target_BD).div_(total_B1)
                ctx.save_for_backward(q_BD, scale, away_BD)
        loss_B1 = total_B1.log() + (swept.top_B1 - logit_B1)
        return (loss_B1 if poison_B1 is None else loss_B1 + poison_B1).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_B: Tensor) -> tuple[Tensor | None, ...]:
        q_BD, scale, away_BD = ctx.saved_tensors
        step_BD = away_BD * grad_B[:, None]
        dscale = (step_BD * q_BD).sum() if ctx.needs_input_grad[1] else None
        dq_BD = step_BD.mul_(scale) if ctx.needs_input_grad[0] else None
        return dq_BD, dscale, None, None, None, None, None
