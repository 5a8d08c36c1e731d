"""The transformer tower: encoder layers over the steps of a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import ConfigError, TowerCost, TowerFactory, TowerShape, hookimpl, option
from ttf_towers._common import (
    FLOAT_BYTES,
    TorchTower,
    linear_parameters,
    pool_parameters,
    resolve_skip,
)

if TYPE_CHECKING:
    from ttf_towers._modules.transformer import TransformerTower


@dataclass(frozen=True, kw_only=True)
class TransformerOptions:
    width: int = option(
        256, "width of the hidden vectors, a multiple of heads", unit="values", ge=1, le=65_536
    )
    layers: int = option(2, "number of encoder layers", unit="layers", ge=1, le=64)
    heads: int = option(4, "attention heads per layer", unit="heads", ge=1, le=1024)
    feedforward: int = option(
        1024, "width inside the feed-forward layers", unit="values", ge=1, le=262_144
    )
    dropout: float = option(
        0.1, "share of values that dropout drops in training", unit="share", ge=0, lt=1
    )
    pool: Literal["last", "mean", "attention", "cls"] = option(
        "mean", "how steps become one vector; cls: an extra learned step"
    )
    residual: Literal["auto", "none", "last", "mean", "weighted"] = option(
        "auto",
        "the input vector that the tower returns before training; weighted: a learned weight for "
        "each position; auto: weighted if the widths are equal",
    )


class TransformerFactory(TorchTower):
    name = "transformer"
    options_type = TransformerOptions

    def estimate(self, shape: TowerShape, options: TransformerOptions) -> TowerCost:
        _check_heads(options)
        width, steps = options.width, shape.length + (options.pool == "cls")
        skip = resolve_skip(self.name, options.residual, shape)
        return TowerCost(
            parameters=linear_parameters(shape.in_dim, width)
            + width * (shape.length + (options.pool == "cls"))
            + options.layers * _layer_parameters(options)
            + 2 * width
            + pool_parameters(options.pool, width, shape.length)
            + pool_parameters(skip, shape.in_dim, shape.length)
            + linear_parameters(width, shape.out_dim),
            activation_bytes=FLOAT_BYTES
            * (
                steps * (2 * shape.in_dim + 3 * width)
                + options.layers * _layer_kept(options, steps)
            ),
            forward_flops=2 * shape.length * shape.in_dim * width
            + options.layers * _layer_flops(options, steps)
            + 2 * width * shape.out_dim,
        )

    def create(self, shape: TowerShape, options: TransformerOptions) -> TransformerTower:
        from ttf_towers._modules.transformer import TransformerTower

        _check_heads(options)
        return TransformerTower(shape, options, resolve_skip(self.name, options.residual, shape))


def _check_heads(options: TransformerOptions) -> None:
    if options.width % options.heads:
        fitting = [h for h in range(1, options.heads) if options.width % h == 0]
        raise ConfigError(
            f"The width {options.width} of the transformer tower is not a multiple of its "
            f"{options.heads} heads.",
            hint=f"Set heads = {fitting[-1]}, "
            f"or width = {-(-options.width // options.heads) * options.heads}.",
        )


def _layer_parameters(options: TransformerOptions) -> int:
    width = options.width
    attention = linear_parameters(width, 3 * width) + linear_parameters(width, width)
    inside = linear_parameters(width, options.feedforward)
    return attention + inside + linear_parameters(options.feedforward, width) + 4 * width


def _layer_kept(options: TransformerOptions, steps: int) -> int:
    # Per sample. With dropout, attention keeps its weights as well.
    dropout = bool(options.dropout)
    per_step = (8 + 2 * dropout) * options.width + (2 + dropout) * options.feedforward
    return steps * (per_step + 3 * dropout * options.heads * steps)


def _layer_flops(options: TransformerOptions, steps: int) -> int:
    width = options.width
    return steps * (8 * width * width + 4 * steps * width + 4 * width * options.feedforward)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return TransformerFactory() if name == "transformer" else None
