"""The base of the tower modules: shape, checked input, output layer.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttf import BadData


class TowerModule(nn.Module):
    """Has the attributes of `ttf.contracts.Tower`, and reads (B, D) or (B, L, D)."""

    def __init__(
        self, in_dim: int, out_dim: int, *, frozen: bool = False, identity: bool = False
    ) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.frozen = frozen
        self.identity = identity

    def steps(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns the input as (B, L, D) with zeros in the padding, and the lengths (None if all
        full).

        A (B, D) input is a sequence of one step.
        """
        if x.dim() not in (2, 3) or x.shape[-1] != self.in_dim:
            raise BadData(
                f"A tower for vectors of width {self.in_dim} got an array of the shape "
                f"{tuple(x.shape)}. It needs the shape (B, {self.in_dim}) or (B, L, "
                f"{self.in_dim}).",
                hint=(
                    "Use data of the same shape as in the training of this model, or train a "
                    "new model."
                ),
            )
        x_BLD = x[:, None, :] if x.dim() == 2 else x
        if lengths is None or bool((lengths == x_BLD.shape[1]).all()):
            return x_BLD, None
        _check_lengths(lengths, *x_BLD.shape[:2])
        lengths = lengths.to(x.device, torch.int64)
        return x_BLD.masked_fill(padding(lengths, x_BLD.shape[1])[:, :, None], 0.0), lengths


def padding(lengths_B: Tensor, length: int) -> Tensor:
    """Returns (B, L), True for steps of padding."""
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


class Head(nn.Module):
    """From the pooled state to the output: a projection, or a gain without one.

    With `at_zero` it starts as 0, so a residual output starts as its input vector.
    """

    def __init__(self, width: int, out_dim: int, *, project: bool, at_zero: bool) -> None:
        super().__init__()
        self.projection = nn.Linear(width, out_dim) if project else None
        self.gain = nn.Parameter(torch.zeros(())) if at_zero and not project else None
        if self.projection is not None and at_zero:
            zero_(self.projection)

    def forward(self, state_BD: Tensor) -> Tensor:
        if self.projection is not None:
            out: Tensor = self.projection(state_BD)
            return out
        return state_BD if self.gain is None else state_BD * self.gain


def zero_(layer: nn.Linear) -> None:
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
