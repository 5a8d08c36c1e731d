"""Availability, resolved options and costs for the factories of all built-in towers.

Imports only the standard library and `ttf`.
"""

from __future__ import annotations

import importlib.util
from typing import Literal

from ttf import Availability, ConfigError, TowerShape

FLOAT_BYTES = 4

Residual = Literal["auto", "none", "last", "mean", "weighted"]
Skip = Literal["none", "last", "mean", "weighted"]


class TorchTower:
    """The common part of the factories."""

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is not installed", fix="pip install torch")
        return Availability(ok=True)


def resolve_skip(tower: str, wanted: Residual, shape: TowerShape) -> Skip:
    """Returns the input vector that is added to the output; needs equal widths on both sides."""
    if wanted == "none" or (wanted == "auto" and shape.in_dim != shape.out_dim):
        return "none"
    if shape.in_dim != shape.out_dim:
        raise ConfigError(
            f"residual = '{wanted}' of the {tower} tower adds the {wanted} input vector to the "
            f"output, so both need the same width. The input has the width {shape.in_dim}, and "
            f"the output has the width {shape.out_dim}.",
            hint="Set residual = 'auto' or 'none'.",
        )
    if not shape.sequence:
        return "last"
    return "weighted" if wanted == "auto" else wanted


def pool_parameters(how: str, width: int, length: int) -> int:
    return {"attention": width, "weighted": length}.get(how, 0)


def linear_parameters(width_in: int, width_out: int, bias: bool = True) -> int:
    return width_in * width_out + (width_out if bias else 0)
