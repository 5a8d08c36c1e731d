"""The one InfoNCE of `ttf`: every training path scores, masks and scales its candidates here.

Shapes: B queries, N candidate columns (each document once), D width, P known positives per
query, K columns that count for nobody (P and K padded with -1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from ttf.errors import ConfigError
from ttf.training.loss.sweep import Block, Excluded, swept_loss

MIN_TEMPERATURE = 0.01
MAX_TEMPERATURE = 1.0
COLUMNS_AT_ONCE: Final = 2048
"""Their logits, candidates and gradients meet in a processor's cache."""


def info_nce(
    q_BD: Tensor,
    cand_ND: Tensor,
    target_B: Tensor,
    *,
    scale: float | Tensor,
    known_BP: Tensor,
    dead_K: Tensor | None = None,
    symmetric: bool = False,
    half_ND: Tensor | None = None,
) -> Tensor:
    """The loss (B,) of each query: -log softmax of its target among the candidates that count.

    Known positives of a query and dead columns do not count; the target of a query always does,
    for that query. `scale` is 1 / temperature. All candidates must be finite, dead ones too: a
    number that is not makes the loss of every query non-finite. Computed in float32 at least,
    whatever autocast says; only where `half_ND`, the candidates in bfloat16, is given are products
    with candidates that need no gradient computed in it (a logit of 20 is then off by 0.06 at
    most, the target's own stays exact).
    """
    dtype = torch.promote_types(q_BD.dtype, torch.float32)
    q_BD, cand_ND = q_BD.to(dtype), cand_ND.to(dtype)
    scale = torch.as_tensor(scale, device=q_BD.device).to(dtype)
    if cand_ND.requires_grad or cand_ND.device.type != "cpu":
        forward_B = _contrast(q_BD, cand_ND, scale, target_B, known_BP, dead_K)
    else:
        columns_ND = cand_ND if half_ND is None else half_ND
        forward_B = swept_loss(
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
    siblings_BB = _siblings(target_B, known_BP)
    reverse_B = _contrast(cand_ND[target_B], q_BD, scale, self_B, siblings_BB, None)
    return (forward_B + reverse_B) / 2


def _blocks(cand_ND: Tensor) -> Iterator[Block]:
    for start in range(0, len(cand_ND), COLUMNS_AT_ONCE):
        yield start, cand_ND[start : start + COLUMNS_AT_ONCE]


def _siblings(target_B: Tensor, known_BP: Tensor) -> Tensor:
    """(document i, query j): the target of query i is a positive of query j as well."""
    out_BB = target_B[:, None] == target_B[None, :]
    for known_B in known_BP.unbind(1):
        out_BB |= target_B[:, None] == known_B[None, :]
    return out_BB


def _contrast(*args: Tensor | None) -> Tensor:
    return cast("Tensor", _Contrast.apply(*args))  # type: ignore[no-untyped-call]


class _Contrast(torch.autograd.Function):
    """Loss and gradients through a single (B, N) buffer, for candidates that need theirs.

    It holds logits, then exp(logits - max), and is left holding what backward multiplies: the
    derivative by each logit times the row's total. Nothing is written to it in backward, so a
    graph that is retained can be used again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q_BD: Tensor,
        cand_ND: Tensor,
        scale: Tensor,
        target_B: Tensor,
        known: Tensor,
        dead_K: Tensor | None,
    ) -> Tensor:
        target_B1 = target_B[:, None]
        with torch.autocast(q_BD.device.type, enabled=False):
            buffer_BN = (q_BD * scale) @ cand_ND.T
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
        ctx.save_for_backward(q_BD, cand_ND, scale, buffer_BN, total_B1)
        return (total_B1.log() + (top_B1 - logit_B1) + poison_B1).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_B: Tensor) -> tuple[Tensor | None, ...]:
        q_BD, cand_ND, scale, buffer_BN, total_B1 = ctx.saved_tensors
        need_q, need_cand, need_scale = ctx.needs_input_grad[:3]
        weight_B1 = grad_B[:, None] / total_B1
        dq_BD = dcand_ND = dscale = None
        with torch.autocast(q_BD.device.type, enabled=False):
            if need_q or need_scale:
                step_BD = (buffer_BN @ cand_ND).mul_(weight_B1)
                dscale = (step_BD * q_BD).sum() if need_scale else None
                dq_BD = step_BD.mul_(scale) if need_q else None
            if need_cand:
                dcand_ND = buffer_BN.T @ (q_BD * (weight_B1 * scale))
        return dq_BD, dcand_ND, dscale, None, None, None


def _mask(buffer_BN: Tensor, target_B1: Tensor, known: Tensor, dead_K: Tensor | None) -> None:
    """Fills with -inf, in place; the caller puts the target's own logit back afterwards.

    `known` is (B, P) columns, or a (B, N) mask.
    """
    if known.dtype == torch.bool:
        buffer_BN.masked_fill_(known, -math.inf)
    else:
        # padding points at the target, whose logit is restored
        buffer_BN.scatter_(1, torch.where(known < 0, target_B1, known), -math.inf)
    if dead_K is not None:
        buffer_BN.index_fill_(1, dead_K[dead_K >= 0], -math.inf)


class Temperature(nn.Module):
    """The temperature of a run, fixed or learned; its state travels with the model.

    Learned, it is kept within [0.01, 1].
    """

    log_scale: Tensor

    def __init__(self, temperature: float, *, learned: bool = False) -> None:
        super().__init__()
        if learned and not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
            raise ConfigError(
                f"loss.temperature is {temperature}, but a learned temperature stays "
                f"within [{MIN_TEMPERATURE}, {MAX_TEMPERATURE}].",
                hint="Start inside that range, or set loss.learn_temperature = false.",
            )
        if not temperature > 0:
            raise ConfigError(
                f"loss.temperature is {temperature}; it divides, so it must be above 0.",
                hint="0.05 is the default.",
            )
        self.learned = learned
        start = torch.tensor(-math.log(temperature))
        if learned:
            self.log_scale = nn.Parameter(start)
        else:
            self.register_buffer("log_scale", start)

    def scale(self) -> Tensor:
        """1 / temperature (0-d), through which a learned one gets its gradient."""
        if self.learned:
            # The parameter itself, not only its value: a clamp in the graph would have no
            # gradient outside its range, and a temperature that overshot could not come back.
            with torch.no_grad():
                self.log_scale.clamp_(-math.log(MAX_TEMPERATURE), -math.log(MIN_TEMPERATURE))
        return self.log_scale.exp()

    def temperature(self) -> float:
        return 1.0 / float(self.scale().detach())
