"""The transformer tower: pre-norm encoder layers with learned positions.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttf import TowerShape
from ttf_towers._common import Skip
from ttf_towers._modules.base import Head, TowerModule, padding
from ttf_towers._modules.pooling import Pool, ages, check_length
from ttf_towers.transformer import TransformerOptions


class TransformerTower(TowerModule):
    """Steps and ages through encoder layers, pooled, projected, plus an input vector."""

    def __init__(self, shape: TowerShape, options: TransformerOptions, skip: Skip) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
        width = options.width
        self.norm_in = nn.LayerNorm(shape.in_dim, elementwise_affine=False)
        self.project_in = nn.Linear(shape.in_dim, width)
        self.position = nn.Parameter(torch.randn(shape.length, width) * 0.02)
        self.cls = nn.Parameter(torch.randn(width) * 0.02) if options.pool == "cls" else None
        self.layers = nn.ModuleList(_layer(options) for _ in range(options.layers))
        self.norm_out = nn.LayerNorm(width)
        self.pool = None if options.pool == "cls" else Pool(options.pool, width, shape.length)
        self.dropout = nn.Dropout(options.dropout)
        self.head = Head(width, shape.out_dim, project=True, at_zero=skip != "none")
        self.skip = None if skip == "none" else Pool(skip, shape.in_dim, shape.length)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x_BLD, lengths_B = self.steps(x, lengths)
        check_length(x_BLD.shape[1], len(self.position))
        hidden = self.project_in(self.norm_in(x_BLD)) + self.position[ages(x_BLD, lengths_B)]
        state_BD = self._encode(self.dropout(hidden), lengths_B)
        out_BD: Tensor = self.head(state_BD)
        return out_BD if self.skip is None else out_BD + self.skip(x_BLD, lengths_B)

    def _encode(self, hidden: Tensor, lengths_B: Tensor | None) -> Tensor:
        mask = None if lengths_B is None else padding(lengths_B, hidden.shape[1])
        if self.cls is not None:
            hidden = torch.cat([self.cls.expand(len(hidden), 1, -1), hidden], 1)
            mask = None if mask is None else nn.functional.pad(mask, (1, 0), value=False)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=mask)
        if self.pool is None:
            out: Tensor = self.norm_out(hidden[:, 0])
            return out
        pooled: Tensor = self.pool(self.norm_out(hidden), lengths_B)
        return pooled


def _layer(options: TransformerOptions) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        options.width,
        options.heads,
        dim_feedforward=options.feedforward,
        dropout=options.dropout,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
