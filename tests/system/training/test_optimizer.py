"""The optimizer without torch's compiler: the same bits as torch's AdamW, and a faster start."""

from __future__ import annotations

import copy
import subprocess
import sys

import torch
from torch import nn
from torch.optim import AdamW

from ttf.training.optimizer import PlainAdamW


def trained(kind: type[AdamW], steps: int, *, through_state: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = kind(groups, lr=1e-2, fused=True)
    for step in range(steps):
        if through_state and step == steps // 2:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = kind(groups, lr=1e-2, fused=True)
            optimizer.load_state_dict(state)
        model(torch.randn(4, 6)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None and p.is_leaf for p in model.parameters())
    return [p.detach() for p in model.parameters()]


def test_weights_are_those_of_torchs_own_adamw_bit_for_bit() -> None:
    expected = trained(AdamW, 6)
    for found in (trained(PlainAdamW, 6), trained(PlainAdamW, 6, through_state=True)):
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_its_state_is_that_of_torchs_own() -> None:
    weight = nn.Parameter(torch.ones(2, 2))
    plain, own = PlainAdamW([weight], fused=True), AdamW([weight], fused=True)
    assert plain.state_dict()["param_groups"] == own.state_dict()["param_groups"]


def test_a_step_loads_no_compiler() -> None:
    code = (
        "import sys, torch; from ttf.training.optimizer import PlainAdamW; "
        "p = torch.nn.Linear(3, 3); o = PlainAdamW(p.parameters(), lr=0.1, fused=True); "
        "p(torch.ones(2, 3)).sum().backward(); o.step(); o.zero_grad(); "
        "o.load_state_dict(o.state_dict()); "
        "assert 'torch._dynamo' not in sys.modules and 'torch._inductor' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
