"""The MLP tower: hidden layers beside a residual, starting as the identity where widths agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import TowerCost, TowerFactory, TowerShape, hookimpl, option
from ttf_towers._common import FLOAT_BYTES, TorchTower, linear_parameters, pool_parameters

if TYPE_CHECKING:
    from ttf_towers._modules.vector import MlpTower


@dataclass(frozen=True, kw_only=True)
class MlpOptions:
    hidden: int = option(1024, "width of the hidden layers", unit="values", ge=1, le=65_536)
    layers: int = option(1, "number of hidden layers", unit="layers", ge=1, le=64)
    dropout: float = option(
        0.3, "share of hidden values that dropout drops in training", unit="share", ge=0, lt=1
    )
    activation: Literal["gelu", "relu", "silu", "tanh"] = option(
        "gelu", "the activation function after each hidden layer"
    )
    norm: bool = option(
        False,
        (
            "apply layer normalisation to the input of the hidden layers: the tower learns "
            "faster, and overfits faster"
        ),
    )
    residual: Literal["auto", "none"] = option(
        "auto", "auto: start as the identity if the widths are equal"
    )
    pool: Literal["mean", "last", "first", "max", "weighted"] = option(
        "weighted",
        "how a sequence becomes one vector; weighted: a learned weight for each position, and the "
        "hidden layers also get the last vector and the mean vector",
    )

    def summaries(self, shape: TowerShape) -> int:
        """How many vectors per sample the hidden layers read."""
        return 3 if shape.sequence and self.pool == "weighted" else 1


class MlpFactory(TorchTower):
    name = "mlp"
    options_type = MlpOptions

    def estimate(self, shape: TowerShape, options: MlpOptions) -> TowerCost:
        pool = pool_parameters(options.pool, shape.in_dim, shape.length) if shape.sequence else 0
        seen = shape.in_dim * options.summaries(shape)
        matrices = (
            seen * options.hidden
            + (options.layers - 1) * options.hidden**2
            + options.hidden * shape.out_dim
        )
        # gelu and silu keep what goes in, relu and tanh what comes out (the next layer's input)
        copies = (2 if options.activation in ("gelu", "silu") else 1) + bool(options.dropout)
        kept = seen + (shape.length * shape.in_dim if pool else 0)
        return TowerCost(
            parameters=pool
            + linear_parameters(seen, options.hidden)
            + (options.layers - 1) * linear_parameters(options.hidden, options.hidden)
            + linear_parameters(options.hidden, shape.out_dim),
            activation_bytes=FLOAT_BYTES * (kept + options.layers * copies * options.hidden),
            forward_flops=2 * matrices + 4 * shape.length * shape.in_dim,
        )

    def create(self, shape: TowerShape, options: MlpOptions) -> MlpTower:
        from ttf_towers._modules.vector import MlpTower

        residual = options.residual == "auto" and shape.in_dim == shape.out_dim
        return MlpTower(shape, options, residual)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return MlpFactory() if name == "mlp" else None
