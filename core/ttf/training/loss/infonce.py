"""InfoNCE: every training path scores, masks and scales its candidates here.

Candidates with gradients are compared through one matrix of logits (`_contrast`). Documents without
gradients are read once, in blocks: the running maximum and sum (online softmax) need no logits of
earlier blocks. The weighted sum of documents is computed in the same pass, so the gradient by a
query needs no second pass.

Shapes: B queries, N candidate columns or documents of a block, D width, P known positives per
query, K excluded columns or pairs (P and K padded with -1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttf.machine.gemm import padded_rows

COLUMNS_AT_ONCE: Final = 2048  # Their logits, candidates and gradients fit in a processor's cache.

# (first document, documents (N, D)); bfloat16 documents are multiplied in bfloat16.
Block = tuple[int, Tensor]


# Sees each block's logits (B, N) during the pass; returns their maximum (B, 1).
Look = Callable[[Tensor], Tensor]
MakeLook = Callable[[Tensor], Look]  # Gets the target's logits (B,).


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Candidates of which only the first get gradients, the documents of the step: all targets are
    among them."""

    docs_KD: Tensor
    # All candidates, then rows that are none, but finite: as many as make shapes of products few.
    wide_WD: Tensor
    count: int  # Of the candidates.


def info_nce(
    q_BD: Tensor,
    cand_ND: Tensor | Trained,
    target_B: Tensor,
    *,
    scale: float | Tensor,
    known_BP: Tensor,
    dead_K: Tensor | None = None,
    symmetric: bool = False,
    half_ND: Tensor | None = None,
) -> Tensor:
    """The loss (B,) of each query: -log softmax of its target among the candidates that count.

    Known positives of a query and dead columns do not count; the target of a query always does, for
    that query. `scale` is 1 / temperature. All candidates must be finite, dead ones too: one that
    is not makes the loss of every query non-finite. Computed in float32 at least, whatever autocast
    says. Exception: with `half_ND` (the candidates in bfloat16), products with candidates that need
    no gradient are bfloat16 (a logit of 20 is then off by 0.06 at most; the target's own stays
    exact).
    """
    dtype = torch.promote_types(q_BD.dtype, torch.float32)
    q_BD = q_BD.to(dtype)
    docs_KD, count = None, None
    if isinstance(cand_ND, Trained):
        docs_KD, count, cand_ND = cand_ND.docs_KD.to(dtype), cand_ND.count, cand_ND.wide_WD
    cand_ND = cand_ND.to(dtype)
    scale = torch.as_tensor(scale, device=q_BD.device).to(dtype)
    if docs_KD is not None or cand_ND.requires_grad or cand_ND.device.type != "cpu":
        forward_B = _contrast(q_BD, cand_ND, docs_KD, scale, target_B, known_BP, dead_K, count)
    else:
        columns_ND = cand_ND if half_ND is None else half_ND
        forward_B = loss_in_one_pass(
            q_BD,
            scale,
            cand_ND[target_B],
            _blocks(columns_ND),
            Excluded(
                torch.cat([target_B[:, None], known_BP], dim=1).numpy(),
                None if dead_K is None else dead_K.numpy(),
            ),
            checked=False,
        )
    if not symmetric:
        return forward_B
    self_B = torch.arange(len(q_BD), device=q_BD.device)
    siblings_BB = _shared_positives(target_B, known_BP)
    target_BD = (cand_ND if docs_KD is None else docs_KD)[target_B]
    reverse_B = _contrast(target_BD, q_BD, None, scale, self_B, siblings_BB, None, None)
    return (forward_B + reverse_B) / 2


def _blocks(cand_ND: Tensor) -> Iterator[Block]:
    for start in range(0, len(cand_ND), COLUMNS_AT_ONCE):
        yield start, cand_ND[start : start + COLUMNS_AT_ONCE]


def _shared_positives(target_B: Tensor, known_BP: Tensor) -> Tensor:
    """Mask (document i, query j): the target of query i is also a positive of query j."""
    out_BB = target_B[:, None] == target_B[None, :]
    for known_B in known_BP.unbind(1):
        out_BB |= target_B[:, None] == known_B[None, :]
    return out_BB


def _contrast(*args: Tensor | int | None) -> Tensor:
    return cast("Tensor", _Contrast.apply(*args))  # type: ignore[no-untyped-call]


class _Contrast(torch.autograd.Function):
    """Loss and gradients through a single (B, N) buffer, for candidates with gradients.

    With `count`, the candidates after so many are none: products have them, where the buffer holds
    zeros, and nothing else.

    The buffer holds logits, then exp(logits - max), and at the end the factors for backward: the
    derivative by each logit times the row's total. Backward does not write to it, so a retained
    graph can be used again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q_BD: Tensor,
        cand_WD: Tensor,
        docs_KD: Tensor | None,
        scale: Tensor,
        target_B: Tensor,
        known: Tensor,
        dead_K: Tensor | None,
        count: int | None,
    ) -> Tensor:
        ctx.num_docs = 0 if docs_KD is None else len(docs_KD)
        target_B1 = target_B[:, None]
        with torch.autocast(q_BD.device.type, enabled=False):
            buffer_BW = (q_BD * scale) @ cand_WD.T
        buffer_BN = buffer_BW[:, :count]
        buffer_BW[:, buffer_BN.shape[1] :] = 0.0
        logit_B1 = buffer_BN.gather(1, target_B1)
        # An infinite candidate may give a logit of -inf, which exp would silently turn into 0.
        poison_B1 = buffer_BN.sum(1, keepdim=True) * 0.0
        _mask(buffer_BN, target_B1, known, dead_K)
        buffer_BN.scatter_(1, target_B1, logit_B1)
        top_B1 = buffer_BN.amax(1, keepdim=True)
        buffer_BN.sub_(top_B1).exp_().scatter_(1, target_B1, 0.0)
        others_B1 = buffer_BN.sum(1, keepdim=True)
        total_B1 = others_B1 + (logit_B1 - top_B1).exp()
        # softmax - 1 at the target, without the cancellation
        buffer_BN.scatter_(1, target_B1, -others_B1)
        ctx.save_for_backward(q_BD, cand_WD, scale, buffer_BW, total_B1)
        return (total_B1.log() + (top_B1 - logit_B1) + poison_B1).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_B: Tensor) -> tuple[Tensor | None, ...]:
        q_BD, cand_WD, scale, buffer_BW, total_B1 = ctx.saved_tensors
        need_q, need_cand, need_docs, need_scale = ctx.needs_input_grad[:4]
        weight_B1 = grad_B[:, None] / total_B1
        dq_BD = dcand_WD = ddocs_KD = dscale = None
        with torch.autocast(q_BD.device.type, enabled=False):
            if need_q or need_scale:
                step_BD = (buffer_BW @ cand_WD).mul_(weight_B1)
                dscale = (step_BD * q_BD).sum() if need_scale else None
                dq_BD = step_BD.mul_(scale) if need_q else None
            if need_cand:
                dcand_WD = buffer_BW.T @ (q_BD * (weight_B1 * scale))
            if need_docs:
                # As few shapes as the candidates have (docs/decisions/0018).
                rows = buffer_BW[:, : padded_rows(ctx.num_docs)].T
                ddocs_KD = (rows @ (q_BD * (weight_B1 * scale)))[: ctx.num_docs]
        return dq_BD, dcand_WD, ddocs_KD, dscale, None, None, None, None


def _mask(buffer_BN: Tensor, target_B1: Tensor, known: Tensor, dead_K: Tensor | None) -> None:
    # Fills with -inf, in place; the caller restores the target's own logit afterwards. `known` is
    # (B, P) columns, or a (B, N) mask.
    if known.dtype == torch.bool:
        buffer_BN.masked_fill_(known, -math.inf)
    else:
        # padding points at the target, whose logit is restored
        buffer_BN.scatter_(1, torch.where(known < 0, target_B1, known), -math.inf)
    if dead_K is not None:
        buffer_BN.index_fill_(1, dead_K[dead_K >= 0], -math.inf)


# --- documents that need no gradient ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Sums over all documents that count, without the target."""

    top_B1: Tensor  # Largest logit, including the target's.
    others_B1: Tensor  # Sum of exp(logit - top).
    pull_BD: Tensor  # Sum of the documents, each times exp(logit - top).


class Excluded:
    """Documents that do not count: for a query, or for all."""

    def __init__(self, documents_BP: NDArray[np.int64], dead_K: NDArray[np.int64] | None = None):
        """Both padded with -1. The target of a query must be among its documents."""
        flat = documents_BP.reshape(-1)
        order = np.argsort(flat, kind="stable")
        order = order[np.searchsorted(flat[order], 0) :]
        self._columns = flat[order]
        self._rows = order // max(documents_BP.shape[1], 1)
        self._dead = np.empty(0, np.int64) if dead_K is None else np.unique(dead_K[dead_K >= 0])

    def mask(self, first: int, logits_BN: Tensor) -> None:
        """Fills excluded logits with -inf, in place."""
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


def _one_pass(
    scaled_BD: Tensor,
    target_logit_B1: Tensor,
    blocks: Iterable[Block],
    excluded: Excluded,
    *,
    look: Look | None = None,
    pull: bool = True,
    poison_B1: Tensor | None = None,
) -> _Sums:
    """`scaled_BD` are queries times 1 / temperature. Without `pull` its field stays zero.

    An infinite document can give a logit of -inf, which exp would silently turn into 0: if
    documents were not checked, `poison_B1` becomes NaN for it.
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
    return _Sums(top_B1=top_B1, others_B1=others_B1, pull_BD=pull_BD)


def loss_in_one_pass(
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

    Gradients go to the queries and to `scale` (1 / temperature). The target's own logit is computed
    from `target_BD` at full precision; it must be excluded from the blocks. If documents are not
    `checked` to be finite, those that are not make the loss NaN.
    """
    loss = _InOnePass.apply(  # type: ignore[no-untyped-call]
        q_BD, scale, target_BD, blocks, excluded, make_look, checked
    )
    return cast("Tensor", loss)


class _InOnePass(torch.autograd.Function):
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
            sums = _one_pass(
                scaled_BD,
                logit_B1,
                blocks,
                excluded,
                look=None if make_look is None else make_look(logit_B1[:, 0]),
                pull=pull,
                poison_B1=poison_B1,
            )
            total_B1 = sums.others_B1 + (logit_B1 - sums.top_B1).exp()
            if pull:
                # softmax - 1 at the target, without the cancellation
                away_BD = sums.pull_BD.sub_(sums.others_B1 * target_BD).div_(total_B1)
                ctx.save_for_backward(q_BD, scale, away_BD)
        loss_B1 = total_B1.log() + (sums.top_B1 - logit_B1)
        return (loss_B1 if poison_B1 is None else loss_B1 + poison_B1).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_B: Tensor) -> tuple[Tensor | None, ...]:
        q_BD, scale, away_BD = ctx.saved_tensors
        step_BD = away_BD * grad_B[:, None]
        dscale = (step_BD * q_BD).sum() if ctx.needs_input_grad[1] else None
        dq_BD = step_BD.mul_(scale) if ctx.needs_input_grad[0] else None
        return dq_BD, dscale, None, None, None, None, None
