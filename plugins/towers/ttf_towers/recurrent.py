"""The GRU and LSTM towers: the steps of a sequence read in order."""

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
    from ttf_towers._common import Skip
    from ttf_towers._modules.recurrent import RecurrentTower

GATES = {"gru": 3, "lstm": 4}


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    hidden: int = option(
        256, "width of the hidden state, per direction", unit="values", ge=1, le=65_536
    )
    layers: int = option(1, "number of recurrent layers", unit="layers", ge=1, le=64)
    bidirectional: bool = option(True, "read the sequence in both directions")
    dropout: float = option(
        0.1,
        "share of values that dropout drops between layers and before the output",
        unit="share",
        ge=0,
        lt=1,
    )
    pool: Literal["last", "final", "mean", "max", "attention"] = option(
        "mean",
        "how steps become one vector; last: the last output (the reverse direction has then read "
        "only one step); final: the final state of each direction",
    )
    residual: Literal["auto", "none", "last", "mean", "weighted"] = option(
        "auto",
        "the input vector that the tower returns before training; weighted: a learned weight for "
        "each position; auto: weighted if the widths are equal",
    )
    norm: bool = option(
        False,
        (
            "apply layer normalisation to the input vectors: the tower learns faster, and "
            "overfits faster"
        ),
    )
    project: bool = option(
        True,
        ("add a linear layer before the output; false: no such layer, if the widths are equal"),
    )

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def width(self) -> int:
        """Width of the pooled state."""
        return self.hidden * self.directions


class RecurrentFactory(TorchTower):
    """Makes GRU or LSTM towers, by name."""

    options_type = RecurrentOptions

    def __init__(self, name: Literal["gru", "lstm"]) -> None:
        self.name: str = name
        self._cell = name

    def estimate(self, shape: TowerShape, options: RecurrentOptions) -> TowerCost:
        skip = self._resolve(shape, options)
        widths = [shape.in_dim, *[options.width] * (options.layers - 1)]
        gates = GATES[self.name] * options.hidden
        cells = options.directions * sum(gates * (w + options.hidden) for w in widths)
        biases = options.directions * options.layers * 2 * gates
        head = linear_parameters(options.width, shape.out_dim)
        if not options.project:
            head = 1 if skip != "none" else 0
        work = _gru_work if self._cell == "gru" else _lstm_work
        flops, kept = work(shape, options, widths)
        return TowerCost(
            parameters=cells
            + biases
            + head
            + pool_parameters(options.pool, options.width, shape.length)
            + pool_parameters(skip, shape.in_dim, shape.length),
            activation_bytes=FLOAT_BYTES * (2 * shape.length * shape.in_dim + kept),
            forward_flops=2 * flops + 2 * head,
        )

    def create(self, shape: TowerShape, options: RecurrentOptions) -> RecurrentTower:
        from ttf_towers._modules.recurrent import RecurrentTower

        return RecurrentTower(shape, self._cell, options, self._resolve(shape, options))

    def _resolve(self, shape: TowerShape, options: RecurrentOptions) -> Skip:
        if not options.project and options.width != shape.out_dim:
            raise ConfigError(
                f"The state of the {self.name} tower has the width {options.width} (hidden "
                f"{options.hidden} x {options.directions} directions), but the other tower has "
                f"the width {shape.out_dim}. With project = false, no layer can change the width.",
                hint="Set project = true, or choose a hidden width that fits.",
            )
        return resolve_skip(self.name, options.residual, shape)


def _gru_work(shape: TowerShape, options: RecurrentOptions, widths: list[int]) -> tuple[int, int]:
    # Per sample: multiplications of a forward and values kept, of `NativeGru`. The product of the
    # state starts at the second step; four gates and the state are kept.
    flops = kept = 0
    gates = GATES["gru"] * options.hidden
    for layer, width in enumerate(widths):
        top = layer == options.layers - 1
        for direction in range(options.directions):
            one = top and direction == 1 and options.pool == "last"
            steps = 1 if one else shape.length
            flops += gates * (steps * width + (steps - 1) * options.hidden)
            kept += 5 * options.hidden * steps
        if not top:  # its output is the next layer's input, and has its dropout's mask
            kept += (2 if options.dropout else 1) * options.width * shape.length
    if options.pool in ("max", "attention"):
        kept += options.width * shape.length
    return flops, kept


def _lstm_work(shape: TowerShape, options: RecurrentOptions, widths: list[int]) -> tuple[int, int]:
    # Per sample, of torch's LSTM, as measured with torch 2.13: it runs in oneDNN, whose workspace
    # has room for gradients and one more step.
    gates, steps = GATES["lstm"] * options.hidden, shape.length
    flops = sum(options.directions * gates * steps * (w + options.hidden) for w in widths)
    kept = sum(
        10 * options.hidden * steps + 7 * max(w, options.hidden) * (steps + 1) for w in widths
    )
    return flops, options.directions * kept


@hookimpl
def ttf_tower(name: str) -> TowerFactory | None:
    if name == "gru":
        return RecurrentFactory("gru")
    return RecurrentFactory("lstm") if name == "lstm" else None
