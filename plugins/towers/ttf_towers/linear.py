"""The linear tower: one matrix, starting as the identity where widths agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import TowerCost, TowerFactory, TowerShape, hookimpl, option
from ttf_towers._common import FLOAT_BYTES, TorchTower, linear_parameters, pool_parameters

if TYPE_CHECKING:
    from ttf_towers._modules.vector import LinearTower


@dataclass(frozen=True, kw_only=True)
class LinearOptions:
    bias: bool = option(False, "add a learned vector to every output")
    residual: Literal["auto", "none"] = option(
        "auto", "auto: start as the identity if the widths are equal"
    )
    pool: Literal["mean", "last", "first", "max", "weighted"] = option(
        "weighted",
        "how a sequence becomes one vector; weighted: a learned weight for each position",
    )


class LinearFactory(TorchTower):
    name = "linear"
    options_type = LinearOptions

    def estimate(self, shape: TowerShape, options: LinearOptions) -> TowerCost:
        pool = pool_parameters(options.pool, shape.in_dim, shape.length) if shape.sequence else 0
        matrix = shape.in_dim * shape.out_dim
        # a single step is a view, which keeps the whole sequence alive
        whole = shape.length if options.pool in ("weighted", "last", "first") else 0
        kept = shape.in_dim * (1 + whole if shape.sequence else 1)
        return TowerCost(
            parameters=pool + linear_parameters(shape.in_dim, shape.out_dim, options.bias),
            activation_bytes=kept * FLOAT_BYTES,
            forward_flops=2 * matrix + 2 * shape.length * shape.in_dim,
        )

    def create(self, shape: TowerShape, options: LinearOptions) -> LinearTower:
        from ttf_towers._modules.vector import LinearTower

        residual = options.residual == "auto" and shape.in_dim == shape.out_dim
        return LinearTower(shape, options, residual)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return LinearFactory() if name == "linear" else None
