"""The identity tower: the vectors are good as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import ConfigError, TowerCost, TowerFactory, TowerShape, hookimpl, option
from ttf_towers._common import TorchTower

if TYPE_CHECKING:
    from ttf_towers._modules.vector import IdentityTower


@dataclass(frozen=True, kw_only=True)
class IdentityOptions:
    pool: Literal["mean", "last"] = option("mean", "which vector of a sequence to use")


class IdentityFactory(TorchTower):
    name = "identity"
    options_type = IdentityOptions

    def estimate(self, shape: TowerShape, options: IdentityOptions) -> TowerCost:
        _check(shape)
        work = shape.length * shape.in_dim if shape.sequence else 0
        return TowerCost(parameters=0, activation_bytes=0, forward_flops=work)

    def create(self, shape: TowerShape, options: IdentityOptions) -> IdentityTower:
        from ttf_towers._modules.vector import IdentityTower

        _check(shape)
        return IdentityTower(shape, options.pool)


def _check(shape: TowerShape) -> None:
    if shape.in_dim != shape.out_dim:
        raise ConfigError(
            f"The identity tower returns vectors of width {shape.in_dim}, but the other tower "
            f"returns vectors of width {shape.out_dim}.",
            hint="Use the linear tower for this side: it can change the width.",
        )


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return IdentityFactory() if name == "identity" else None
