"""The towers for single vectors: identity, linear, MLP. Sequences are pooled first.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttf import TowerShape
from ttf_towers._modules.base import TowerModule, zero_
from ttf_towers._modules.pooling import Pool, plain
from ttf_towers.linear import LinearOptions
from ttf_towers.mlp import MlpOptions


class IdentityTower(TowerModule):
    """Returns vectors unchanged; of sequences the mean or the last step. Nothing to train."""

    def __init__(self, shape: TowerShape, pool: str) -> None:
        super().__init__(shape.in_dim, shape.out_dim, frozen=True, identity=not shape.sequence)
        self.pool = pool

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return x if x.dim() == 2 else plain(self.pool, *self.steps(x, lengths))


class LinearTower(TowerModule):
    """x + W x for equal widths, W starts at 0: weight decay then pulls to the identity."""

    def __init__(self, shape: TowerShape, options: LinearOptions, residual: bool) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
        self.pool = Pool(options.pool if shape.sequence else "last", shape.in_dim, shape.length)
        self.map = nn.Linear(shape.in_dim, shape.out_dim, bias=options.bias)
        self.residual = residual
        if residual:
            zero_(self.map)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        pooled_BD = self.pool(*self.steps(x, lengths))
        out_BD: Tensor = self.map(pooled_BD)
        return pooled_BD + out_BD if self.residual else out_BD


class MlpTower(TowerModule):
    """x + MLP(x) for equal widths, starts as x. Sequences are given as several summaries."""

    def __init__(self, shape: TowerShape, options: MlpOptions, residual: bool) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
        self.pool = Pool(options.pool if shape.sequence else "last", shape.in_dim, shape.length)
        self.summaries = options.summaries(shape)
        self.norm = nn.LayerNorm(shape.in_dim, elementwise_affine=False) if options.norm else None
        self.hidden = nn.Sequential(*_hidden_layers(shape.in_dim * self.summaries, options))
        self.last = nn.Linear(options.hidden, shape.out_dim)
        self.residual = residual
        if residual:
            zero_(self.last)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x_BLD, lengths_B = self.steps(x, lengths)
        pooled_BD = self.pool(x_BLD, lengths_B)
        seen = [pooled_BD]
        if self.summaries > 1:
            seen += [plain(how, x_BLD, lengths_B) for how in ("last", "mean")]
        if self.norm is not None:
            seen = [self.norm(view_BD) for view_BD in seen]
        out_BD: Tensor = self.last(self.hidden(torch.cat(seen, 1)))
        return pooled_BD + out_BD if self.residual else out_BD


def _hidden_layers(width: int, options: MlpOptions) -> list[nn.Module]:
    activation = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}
    layers: list[nn.Module] = []
    for _ in range(options.layers):
        layers += [nn.Linear(width, options.hidden), activation[options.activation]()]
        layers += [nn.Dropout(options.dropout)]
        width = options.hidden
    return layers
