"""Pools the steps of a sequence to one vector. Padding never counts.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ttf import BadData
from ttf_towers._modules.base import padding


class Pool(nn.Module):
    """last, first, mean, max, attention (learned from content) or weighted (learned by position).

    Attention starts as the mean. Weighted starts with weights proportional to 1 / (1 + age); the
    last valid step has age 0.
    """

    def __init__(self, how: str, width: int, length: int) -> None:
        super().__init__()
        self.how = how
        self.score = nn.Parameter(torch.zeros(width)) if how == "attention" else None
        ages = torch.arange(length, dtype=torch.get_default_dtype())
        self.position = nn.Parameter(-torch.log1p(ages)) if how == "weighted" else None

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        if self.score is not None:
            return _mix(x_BLD, _hide(x_BLD @ self.score, lengths_B))
        if self.position is not None:
            check_length(x_BLD.shape[1], len(self.position))
            return _mix(x_BLD, _hide(self.position[ages(x_BLD, lengths_B)], lengths_B))
        return plain(self.how, x_BLD, lengths_B)


def plain(how: str, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
    """The poolings without parameters."""
    if how == "first":
        return x_BLD[:, 0]
    if how == "last":
        if lengths_B is None:
            return x_BLD[:, -1]
        return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), lengths_B - 1]
    if how == "mean":
        count = x_BLD.shape[1] if lengths_B is None else lengths_B[:, None]
        return _masked(x_BLD, lengths_B, 0.0).sum(1) / count
    if how == "max":
        return _masked(x_BLD, lengths_B, -math.inf).amax(1)
    raise AssertionError(how)


def ages(x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Returns (L,) or (B, L): how many valid steps follow each step (0 for padding)."""
    length = x_BLD.shape[1]
    step_L = torch.arange(length, device=x_BLD.device)
    if lengths_B is None:
        return length - 1 - step_L
    return (lengths_B[:, None] - 1 - step_L).clamp(min=0)


def check_length(length: int, longest: int) -> None:
    if length > longest:
        raise BadData(
            f"The tower was built for sequences of up to {longest} steps, but got a sequence of "
            f"{length} steps.",
            hint=(
                f"Shorten the sequences to {longest} steps, or train a tower for longer sequences."
            ),
        )


def _masked(x_BLD: Tensor, lengths_B: Tensor | None, value: float) -> Tensor:
    if lengths_B is None:
        return x_BLD
    return x_BLD.masked_fill(padding(lengths_B, x_BLD.shape[1])[:, :, None], value)


def _hide(logit: Tensor, lengths_B: Tensor | None) -> Tensor:
    if lengths_B is None:
        return logit
    return logit.masked_fill(padding(lengths_B, logit.shape[-1]), -math.inf)


def _mix(x_BLD: Tensor, logit: Tensor) -> Tensor:
    # Sum of steps weighted by softmax of `logit`, (L,) or (B, L).
    weight = torch.softmax(logit, -1)
    if weight.dim() == 1:
        return torch.einsum("l,bld->bd", weight, x_BLD)
    return torch.einsum("bl,bld->bd", weight, x_BLD)
