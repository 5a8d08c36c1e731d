"""What ttf imports of this package: the tower's name, its options and its cost.

ttf imports this module whenever the tower is named, if only to show its options: it imports the
standard library and `ttf` alone. torch is imported by `_module`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import Availability, TowerCost, TowerShape, hookimpl, option

if TYPE_CHECKING:
    import torch
    from ttf import TowerFactory

FLOAT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Options:
    """Set as `--set tower.query.decay=2`, or in a file under [tower.query]."""

    decay: float = option(
        1.0,
        "how much less older steps count, before training; 0: all steps count the same",
        unit="no unit",
        ge=0,
        le=1000,
    )
    bias: bool = option(True, "add a learned vector to every output")
    residual: Literal["auto", "none"] = option(
        "auto", "auto: the initial output is the pooled input, if the widths are equal"
    )


class Factory:
    """A learned weight for each age of a step, then a linear layer."""

    name = "your-name"
    options_type = Options

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is not installed", fix="pip install torch")
        return Availability(ok=True)

    def estimate(self, shape: TowerShape, options: Options) -> TowerCost:
        """YOUR NETWORK: parameters exactly, the rest within a factor of two: the plan of a run
        (micro-batches, memory, time) is made from it."""
        matrix = shape.in_dim * shape.out_dim
        pooling = shape.length if shape.sequence else 0
        steps_kept = shape.length if shape.sequence else 0
        return TowerCost(
            parameters=pooling + matrix + (shape.out_dim if options.bias else 0),
            # What autograd keeps of a sample: the steps, for the weights, and the pooled vector.
            activation_bytes=FLOAT_BYTES * shape.in_dim * (1 + steps_kept),
            forward_flops=2 * matrix + 2 * shape.length * shape.in_dim,
        )

    def create(self, shape: TowerShape, options: Options) -> torch.nn.Module:
        from ._module import YourNameTower

        return YourNameTower(shape, options)


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    return Factory() if name == Factory.name else None
