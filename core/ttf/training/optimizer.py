"""AdamW as torch has it, without the compiler that torch's own wrappers import with it."""

from __future__ import annotations

import inspect
from typing import Any, cast

import torch
from torch import nn
from torch.optim import AdamW, Optimizer


def _plain(method: Any) -> Any:
    """The method without its decorators."""
    return inspect.unwrap(method)


class PlainAdamW(AdamW):
    """The same numbers, bit for bit. torch's wrappers for `torch.compile` import torch._dynamo: 0.8
    s of every start, and nothing here uses the compiler."""

    add_param_group = _plain(Optimizer.add_param_group)
    zero_grad = _plain(Optimizer.zero_grad)
    state_dict = _plain(Optimizer.state_dict)
    load_state_dict = _plain(Optimizer.load_state_dict)
    # The wrapper's other work: steps are not differentiated.
    step = cast("Any", torch.no_grad()(_plain(AdamW.step)))


def make_optimizer(model: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW; biases, norms and the temperature get no weight decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return PlainAdamW([g for g in groups if g["params"]] or groups[:1], lr=lr, fused=True)
