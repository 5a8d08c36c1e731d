"""Trained rows, pooled. Shapes: B samples, L steps, D width of a row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ttf import ConfigError, TableRows, TowerShape
from ttf_towers._modules.base import TowerModule, padding, zero_
from ttf_towers._modules.pooling import plain
from ttf_towers.embedding import EmbeddingOptions


class EmbeddingTower(TowerModule):
    """What the run sets as `rows` looks them up. A document that has a vector starts as it: its row
    is what training adds."""

    def __init__(self, shape: TowerShape, options: EmbeddingOptions) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
        self.table = TableRows(
            name=options.table,
            optimizer=options.optimizer,
            lr=options.rows_lr,
            zeros=not shape.numbers_only,
        )
        self.rows: Callable[[Tensor], Tensor] = _no_table
        self.adds = not shape.numbers_only
        self.pool = options.pool
        self.gru = (
            nn.GRU(shape.out_dim, shape.out_dim, batch_first=True)
            if options.pool == "gru" and shape.sequence
            else None
        )
        self.shift = nn.Parameter(torch.zeros(shape.out_dim))
        self.mlp = _mlp(shape.out_dim, options.mlp) if options.mlp else None

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        found = self.rows(x)
        if self.adds:
            found = found + x[..., : self.out_dim]
        pooled_BD = found if found.dim() == 2 else self._pooled(found, lengths)
        if self.mlp is not None:
            pooled_BD = pooled_BD + self.mlp(pooled_BD)
        return pooled_BD + self.shift

    def _pooled(self, rows_BLD: Tensor, lengths: Tensor | None) -> Tensor:
        if lengths is not None:
            lengths = lengths.to(rows_BLD.device, torch.int64)
            rows_BLD = rows_BLD.masked_fill(padding(lengths, rows_BLD.shape[1])[:, :, None], 0.0)
        if self.gru is not None:
            states_BLD, _ = self.gru(rows_BLD)
            return plain("last", states_BLD, lengths)
        return plain(self.pool, rows_BLD, lengths)


def _mlp(width: int, hidden: int) -> nn.Sequential:
    last = nn.Linear(hidden, width)
    zero_(last)  # it starts as nothing beside the rows
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), last)


def _no_table(x: Tensor) -> Tensor:
    raise ConfigError("An embedding tower was called before its run has opened its table.")
