"""The tower `decay`. Light: what asks for its name imports the standard library and `ttf`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ttf import Availability, TowerCost, TowerShape, hookimpl, option

if TYPE_CHECKING:
    import torch
    from ttf import TowerFactory

_FLOAT_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class DecayOptions:
    half_life: float = option(
        2.0, "steps after which a step counts half, before training", gt=0, le=1e6
    )
    bias: bool = option(False, "add a learned vector to every output")


class DecayFactory:
    name = "decay"
    options_type = DecayOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is not installed", fix="pip install torch")
        return Availability(ok=True)

    def estimate(self, shape: TowerShape, options: DecayOptions) -> TowerCost:
        matrix = shape.in_dim * shape.out_dim
        rates = shape.in_dim if shape.sequence else 0
        steps_kept = shape.length if shape.sequence else 0
        return TowerCost(
            parameters=rates + matrix + (shape.out_dim if options.bias else 0),
            activation_bytes=_FLOAT_BYTES * shape.in_dim * (1 + steps_kept),
            forward_flops=2 * matrix + 2 * shape.length * shape.in_dim,
        )

    def create(self, shape: TowerShape, options: DecayOptions) -> torch.nn.Module:
        from ttf_tower_decay._module import DecayTower

        return DecayTower(shape, options)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return DecayFactory() if name == "decay" else None
