"""Computes nn.GRU on the CPU with its parameters and results, but skips unneeded work.

float32 or float64 on the CPU, or bf16 autocast there, runs here (`supported`). For other devices
and types, and when the tower is exported, nn.GRU itself runs.

Shapes: B samples, L steps, R rows (valid steps of all samples), D width.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import torch
from torch import Tensor, nn

from ttf_towers._modules.gru_rows import Rows
from ttf_towers._modules.gru_steps import Buffers, GruDirection, Pass
from ttf_towers._modules.gru_weights import WeightCache

# What is needed of the top layer: every step's output, each direction's final state, or the output
# at the last valid step (then the reverse direction takes one step).
Need = Literal["all", "final", "last"]


def supported(x: Tensor, rnn: nn.RNNBase) -> bool:
    if not isinstance(rnn, nn.GRU) or x.device.type != "cpu":
        return False
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if traced or torch.compiler.is_exporting():
        return False  # an exported program can contain torch's layer, but not this code
    if any(p.dtype != x.dtype or p.device != x.device for p in rnn.parameters()):
        return False
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu") == torch.bfloat16
        return half and x.dtype == torch.float32
    return x.dtype in (torch.float32, torch.float64)


class NativeGru:
    """Runs the layers of an nn.GRU (batch_first). Only reads its parameters."""

    def __init__(self) -> None:
        self._cache = WeightCache()
        self._buffers: defaultdict[int, Buffers] = defaultdict(Buffers)

    def __reduce__(self) -> tuple[type[NativeGru], tuple[()]]:
        # Copies and pickles start empty: the content follows from parameters and calls.
        return NativeGru, ()

    def __call__(self, rnn: nn.GRU, x_BLD: Tensor, lengths_B: Tensor | None, need: Need) -> Tensor:
        """Returns (B, L, directions * hidden) for "all", else (B, directions * hidden)."""
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else x_BLD.dtype
        rows = Rows(x_BLD.shape[0], x_BLD.shape[1], lengths_B)
        x_RD = rows.pack(x_BLD, dtype)
        for layer in range(rnn.num_layers - 1):
            out_RD = torch.cat(self._layer(rnn, layer, rows, x_RD, "all"), 1)
            if rnn.dropout:
                out_RD = nn.functional.dropout(out_RD, rnn.dropout, rnn.training)
            x_RD = out_RD.to(dtype)
        out = torch.cat(self._layer(rnn, rnn.num_layers - 1, rows, x_RD, need), 1)
        return rows.unpack(out) if need == "all" else rows.unsort(out)

    def _layer(self, rnn: nn.GRU, layer: int, rows: Rows, x_RD: Tensor, need: Need) -> list[Tensor]:
        pick = 0 if need == "all" else 1
        found = [self._run(rnn, layer, 0, x_RD, rows.sizes, rows.last_B)[pick]]
        if rnn.bidirectional and need == "last":
            last_BD = rows.last(x_RD)
            one_step = (len(last_BD),)
            found.append(self._run(rnn, layer, 1, last_BD, one_step, rows.last_B)[1])
        elif rnn.bidirectional:
            found.append(self._run(rnn, layer, 1, x_RD, rows.sizes, rows.last_B)[pick])
        return found

    def _run(
        self,
        rnn: nn.GRU,
        layer: int,
        direction: int,
        x_RD: Tensor,
        sizes: tuple[int, ...],
        last_B: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Returns all states and the final states of one direction."""
        place = 2 * layer + direction
        parameters = direction_parameters(rnn, layer, direction)
        weights = self._cache.get(place, parameters, x_RD.dtype)
        buffers: Buffers | None = self._buffers[place]
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in (x_RD, *parameters))):
            self._buffers.clear()  # evaluation or mining: they need memory of their own
            buffers = None
        how = Pass(
            weights=weights, sizes=sizes, reverse=direction == 1, last_B=last_B, buffers=buffers
        )
        found: tuple[Tensor, Tensor] = GruDirection.apply(  # type: ignore[no-untyped-call]
            x_RD, *parameters, how
        )
        return found


def direction_parameters(rnn: nn.GRU, layer: int, direction: int) -> list[Tensor]:
    suffix = f"_l{layer}" + ("_reverse" if direction else "")
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(rnn, name + suffix) for name in names]
