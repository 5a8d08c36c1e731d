"""The embedding tower: one trained vector for each document or item, in a table of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import TowerCost, TowerFactory, TowerShape, hookimpl, option
from ttf_towers._common import FLOAT_BYTES, TorchTower, linear_parameters

if TYPE_CHECKING:
    from ttf_towers._modules.embedding import EmbeddingTower


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    table: str = option(
        "rows", "name of the table; towers of both sides with the same name share its rows"
    )
    optimizer: Literal["adagrad", "adam", "sgd"] = option(
        "adagrad",
        "how rows are trained; adagrad: row-wise, 4 bytes for each row; adam: lazy, twice the "
        "vector for each row; only rows of a step change",
    )
    rows_lr: float = option(
        0.05, "learning rate of the rows after the warm-up", unit="no unit", gt=0, le=1000
    )
    pool: Literal["mean", "last", "gru"] = option(
        "mean", "how the rows of a sequence become one vector; gru: the last state of a GRU"
    )
    mlp: int = option(
        0,
        "width of the hidden layer of an MLP after the pooling; 0: no MLP",
        unit="values",
        ge=0,
        le=65_536,
    )


class EmbeddingFactory(TorchTower):
    name = "embedding"
    options_type = EmbeddingOptions
    wants_numbers = True

    def estimate(self, shape: TowerShape, options: EmbeddingOptions) -> TowerCost:
        width, hidden = shape.out_dim, options.mlp
        gru = 6 * width * (width + 1) if options.pool == "gru" and shape.sequence else 0
        mlp = linear_parameters(width, hidden) + linear_parameters(hidden, width) if hidden else 0
        kept = width * shape.length * (6 if gru else 1) + 3 * hidden
        return TowerCost(
            parameters=width + gru + mlp,
            activation_bytes=kept * FLOAT_BYTES,
            forward_flops=2 * (gru * shape.length + mlp),
        )

    def create(self, shape: TowerShape, options: EmbeddingOptions) -> EmbeddingTower:
        from ttf_towers._modules.embedding import EmbeddingTower

        return EmbeddingTower(shape, options)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return EmbeddingFactory() if name == "embedding" else None
