"""Towers as a list of layers that other libraries have: linear maps and activations. Imports torch.

A residual x + MLP(x) is no list of layers, but the identity can go through the hidden layer: for the
activations f below, f(x) - f(-x) = x. So a hidden layer of H units becomes one of H + 2 D.

Shapes: D width of the tower, H hidden width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from ttf import ConfigError, TowerFacts

NATIVE: Final = ("identity", "linear", "mlp")
_ODD_PART_IS_X: Final = {nn.GELU: "GELU", nn.SiLU: "SiLU", nn.ReLU: "ReLU"}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """y = activation(weight x + bias); activation: a class of torch.nn, "Identity" for none."""

    weight: Tensor
    bias: Tensor | None
    activation: str = "Identity"


def layers(tower: nn.Module, facts: TowerFacts, side: str) -> list[Layer]:
    """Raises ConfigError for towers that have no such form."""
    if facts.shape.sequence:
        raise refused(side, facts.name, "it reads sequences of vectors, and a text is one vector")
    if facts.name == "identity":
        return []
    if facts.name == "linear":
        return [_linear(tower)]
    if facts.name == "mlp":
        return _mlp(tower, side, facts)
    raise refused(side, facts.name, "sentence-transformers has no module for it")


def refused(side: str, name: str, why: str) -> ConfigError:
    return ConfigError(
        f"The {side} tower {name!r} has no form of native sentence-transformers modules: {why}. Native "
        f"towers: {', '.join(NATIVE)}.",
        hint=(
            "Two ways: export the towers alone and run them on the encoder's vectors (ttf export "
            "RUN_DIR onnx, or torch-export); or in Python: with ttf.load(RUN_DIR) as model: "
            "model.encode_queries(SentenceTransformer(ENCODER).encode(texts))"
        ),
    )


@torch.no_grad()
def _linear(tower: Any) -> Layer:
    weight, bias = tower.map.weight, tower.map.bias
    if tower.residual:
        weight = weight + torch.eye(len(weight))
    return Layer(weight=weight.clone(), bias=None if bias is None else bias.clone())


@torch.no_grad()
def _mlp(tower: Any, side: str, facts: TowerFacts) -> list[Layer]:
    if tower.norm is not None:
        raise refused(side, "mlp", "its option `norm` normalises the input beside the residual")
    pairs = [m for m in tower.hidden if not isinstance(m, nn.Dropout)]
    linear, activations = [*pairs[::2], tower.last], pairs[1::2]
    name = next((n for kind, n in _ODD_PART_IS_X.items() if type(activations[0]) is kind), "")
    if not tower.residual:
        ends = [*(type(a).__name__ for a in activations), "Identity"]
        return [
            Layer(weight=m.weight.clone(), bias=m.bias.clone(), activation=end)
            for m, end in zip(linear, ends, strict=True)
        ]
    if not name:
        raise refused(side, "mlp", "its residual goes through a layer with the activation tanh")
    return _with_identity(linear, name, facts.shape.in_dim)


def _with_identity(linear: list[nn.Linear], activation: str, dim: int) -> list[Layer]:
    eye = torch.eye(dim)
    found = []
    for number, module in enumerate(linear):
        weight, bias = module.weight, module.bias
        first, last = number == 0, number == len(linear) - 1
        # What x is in the input of this layer: itself, or f(x) - f(-x) at its end.
        same = eye if first else torch.cat([torch.zeros(dim, weight.shape[1]), eye, -eye], dim=1)
        whole = weight if first else torch.cat([weight, torch.zeros(len(weight), 2 * dim)], dim=1)
        if last:
            found.append(Layer(weight=whole + same, bias=bias.clone()))
            continue
        more = torch.cat([bias, torch.zeros(2 * dim)])
        rows = torch.cat([whole, same, -same])
        found.append(Layer(weight=rows, bias=more, activation=activation))
    return found


def constant(dim: int, value: float) -> Layer:
    """Appends a constant as one more dimension."""
    return Layer(
        weight=torch.cat([torch.eye(dim), torch.zeros(1, dim)]),
        bias=torch.cat([torch.zeros(dim), torch.tensor([value])]),
    )
