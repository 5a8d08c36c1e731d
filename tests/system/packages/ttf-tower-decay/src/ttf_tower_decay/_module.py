"""The network. Shapes: B samples, L steps, D width; the last valid step is the newest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from ttf import BadData, TowerShape

if TYPE_CHECKING:
    from ttf_tower_decay.decay_tower import DecayOptions


class DecayTower(nn.Module):
    """Starts as the decayed average itself, where widths agree."""

    def __init__(self, shape: TowerShape, options: DecayOptions) -> None:
        super().__init__()
        self.in_dim, self.out_dim = shape.in_dim, shape.out_dim
        self.frozen = self.identity = False
        if shape.sequence:
            rate = math.log(2) / options.half_life
            start = torch.full((shape.in_dim,), math.log(math.expm1(rate)))
            self.raw_rate_D = nn.Parameter(start)
        self.map = nn.Linear(shape.in_dim, shape.out_dim, bias=options.bias)
        if shape.in_dim == shape.out_dim:
            nn.init.eye_(self.map.weight)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if x.dim() not in (2, 3) or x.shape[-1] != self.in_dim:
            raise BadData(f"A decay tower of width {self.in_dim} was given {tuple(x.shape)}.")
        pooled_BD = x if x.dim() == 2 else self._pooled(x, lengths)
        out: Tensor = self.map(pooled_BD)
        return out

    def _pooled(self, x_BLD: Tensor, lengths: Tensor | None) -> Tensor:
        length = x_BLD.shape[1]
        if length == 1:
            return x_BLD[:, 0]
        rate_D = functional.softplus(self.raw_rate_D)
        step_L = torch.arange(length, device=x_BLD.device)
        if lengths is None or bool((lengths == length).all()):
            age_L1 = (length - 1 - step_L).to(x_BLD.dtype)[:, None]
            weight_LD = torch.softmax(-rate_D * age_L1, 0)
            return torch.einsum("ld,bld->bd", weight_LD, x_BLD)
        lengths_B1 = lengths.to(x_BLD.device)[:, None]
        padding_BL1 = (step_L >= lengths_B1)[:, :, None]
        age_BL1 = (lengths_B1 - 1 - step_L).clamp(min=0).to(x_BLD.dtype)[:, :, None]
        weight_BLD = torch.softmax((-rate_D * age_BL1).masked_fill(padding_BL1, -torch.inf), 1)
        # Padding may hold anything, NaN included: it is replaced, not multiplied by zero.
        return torch.einsum("bld,bld->bd", weight_BLD, x_BLD.masked_fill(padding_BL1, 0.0))
