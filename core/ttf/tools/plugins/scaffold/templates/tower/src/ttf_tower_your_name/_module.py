"""The network. YOUR NETWORK goes here.

Shapes: B samples, L steps (the newest last), D width, O width of the output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from ttf import BadData, TowerShape

from .plugin import Options


class YourNameTower(nn.Module):
    """Steps are averaged with a learned weight per age, then mapped; a vector is one step.

    The weights are drawn from torch's generator, which ttf has seeded.
    """

    age_weight: Tensor

    def __init__(self, shape: TowerShape, options: Options) -> None:
        super().__init__()
        self.in_dim, self.out_dim = shape.in_dim, shape.out_dim
        self.frozen = False
        """Nothing is trained: then rows are encoded once, not in every epoch."""
        self.identity = False
        """Returns its input: then rows are used where they lie."""
        ages = torch.arange(shape.length, dtype=torch.get_default_dtype())
        weights = -options.decay * torch.log1p(ages)
        if shape.sequence:
            self.age_weight = nn.Parameter(weights)
        else:  # a single step: there is nothing to learn
            self.register_buffer("age_weight", weights)
        self.map = nn.Linear(shape.in_dim, shape.out_dim, bias=options.bias)
        self.residual = options.residual == "auto" and shape.in_dim == shape.out_dim
        if self.residual:  # starts as the pooled input, which is a fair first guess
            nn.init.zeros_(self.map.weight)
            if self.map.bias is not None:
                nn.init.zeros_(self.map.bias)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x_BLD, lengths_B = self._steps(x, lengths)
        pooled_BD = self._pooled(x_BLD, lengths_B)
        out_BO: Tensor = self.map(pooled_BD)
        return pooled_BD + out_BO if self.residual else out_BO

    def _steps(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As (B, L, D) with zeros for padding; the lengths only where some steps are padding.

        Padding may hold anything, NaN included: it is replaced, never multiplied by zero.
        """
        x_BLD = x[:, None, :] if x.dim() == 2 else x
        longest = len(self.age_weight)
        if x_BLD.dim() != 3 or x_BLD.shape[2] != self.in_dim or x_BLD.shape[1] > longest:
            raise BadData(
                f"A tower for vectors of width {self.in_dim} got an array of the shape "
                f"{tuple(x.shape)}. It needs the shape (B, {self.in_dim}), or (B, L, "
                f"{self.in_dim}) with L up to {longest}.",
                hint=(
                    "Use data of the same shape as in the training of this model, or train a "
                    "new model."
                ),
            )
        if lengths is None or bool((lengths == x_BLD.shape[1]).all()):
            return x_BLD, None
        _check_lengths(lengths, *x_BLD.shape[:2])
        lengths_B = lengths.to(x.device, torch.int64)
        return x_BLD.masked_fill(_padding(lengths_B, x_BLD.shape[1])[:, :, None], 0.0), lengths_B

    def _pooled(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        length = x_BLD.shape[1]
        step_L = torch.arange(length, device=x_BLD.device)
        if lengths_B is None:
            weight_L = torch.softmax(self.age_weight[length - 1 - step_L], 0)
            return torch.einsum("l,bld->bd", weight_L, x_BLD)
        age_BL = (lengths_B[:, None] - 1 - step_L).clamp(min=0)
        score_BL = self.age_weight[age_BL].masked_fill(_padding(lengths_B, length), -torch.inf)
        return torch.einsum("bl,bld->bd", torch.softmax(score_BL, 1), x_BLD)


def _padding(lengths_B: Tensor, length: int) -> Tensor:
    """(B, L), True where a step is padding."""
    return torch.arange(length, device=lengths_B.device) >= lengths_B[:, None]


def _check_lengths(lengths: Tensor, batch: int, length: int) -> None:
    if lengths.shape != (batch,):
        raise BadData(
            f"The lengths have the shape {tuple(lengths.shape)}, but there are {batch} sequences.",
            hint="Give one length per sequence.",
        )
    wrong = torch.nonzero((lengths < 1) | (lengths > length)).flatten()
    if len(wrong):
        row = int(wrong[0])
        raise BadData(
            f"Row {row} of the batch has the length {int(lengths[row])}, but it must be between 1 "
            f"and {length}.",
            hint="Check len_train and len_val: `ttf data inspect` shows their range.",
        )
