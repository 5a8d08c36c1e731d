"""The loss of each query against documents that need no gradient, computed in one pass.

Shapes: B queries, D width, P known positives per query (padded with -1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor

from ttf.training.loss.sweep import Block, Excluded, Look, sweep

Looking = Callable[[Tensor], Look]
"""Makes what looks at the logits from the target's logits (B,)."""


def swept_loss(
    q_BD: Tensor,
    scale: Tensor,
    target_BD: Tensor,
    blocks: Iterable[Block],
    excluded: Excluded,
    *,
    looking: Looking | None = None,
    checked: bool = True,
) -> Tensor:
    """The loss (B,): -log softmax of each target among itself and what is not excluded.

    Gradients go to the queries and to `scale` (1 / temperature). The target's own logit is
    computed from `target_BD` at full precision; it must be excluded from the blocks. Documents
    that are not `checked` to be finite make the loss NaN where they are not.
    """
    loss = _Swept.apply(  # type: ignore[no-untyped-call]
        q_BD, scale, target_BD, blocks, excluded, looking, checked
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
        looking: Looking | None,
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
                look=None if looking is None else looking(logit_B1[:, 0]),
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
