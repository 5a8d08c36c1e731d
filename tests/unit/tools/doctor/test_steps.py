"""Three real steps: what dies in them is told with its class, and nothing is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import FakeDistribution
from tests.kit.fixtures.doctor import Ask, WriteToml
from tests.kit.widely import wide

TOWER = """
import ctypes, os
from dataclasses import dataclass
from ttf import hookimpl, option
from ttf.contracts import Availability, TowerCost

@dataclass(frozen=True, kw_only=True)
class Options:
    fault: str = option("", "what its forward does")

class Factory:
    name, options_type = "fragile", Options
    def availability(self):
        return Availability(ok=True)
    def estimate(self, shape, options):
        return TowerCost(parameters=shape.in_dim * shape.out_dim, activation_bytes=64,
                         forward_flops=64)
    def create(self, shape, options):
        import torch

        class Fragile(torch.nn.Module):
            in_dim, out_dim, frozen, identity = shape.in_dim, shape.out_dim, False, False
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(shape.in_dim, shape.out_dim)
            def forward(self, x, lengths=None):
                if self.training and options.fault == "segfault":
                    ctypes.string_at(0)
                out = self.linear(x if x.ndim == 2 else x.mean(dim=1))
                return out * float("nan") if options.fault == "nan" and self.training else out

        return Fragile()

@hookimpl
def ttf_tower(name):
    return Factory() if name == "fragile" else None
"""


@pytest.fixture
def fragile(fake_plugins: FakeDistribution) -> FakeDistribution:
    fake_plugins.add("ttf-fragile", {"tower.fragile": "ttf_fragile_tower"})
    fake_plugins.module("ttf_fragile_tower", TOWER)
    return fake_plugins


@wide
@pytest.mark.parametrize(
    ("fault", "said"),
    [("segfault", "segfault of the trainer"), ("nan", "non-finite of the trainer")],
)
def test_a_tower_that_fails_in_the_first_steps_is_told_with_its_class(
    ask: Ask, run_toml: WriteToml, fragile: FakeDistribution, temporary: Path, fault: str, said: str
) -> None:
    config = run_toml(tower__query=f'name = "fragile"\nfault = "{fault}"', miner="negatives = 0")
    found = ask(config, check="steps")
    assert (found["status"], found["exit_code"]) == ("fail", 6), found
    assert said in found["detail"]
    assert found["evidence"] and found["remedy"]


@wide
def test_a_tower_that_works_is_told_as_well(
    ask: Ask, run_toml: WriteToml, fragile: FakeDistribution, temporary: Path
) -> None:
    gates = '[[gates]]\nat = "step 2"\nneed = "recall@1 >= 1.0"\n'
    config = run_toml(tower__query='name = "fragile"')
    config.write_text(f"{config.read_text()}\n{gates}")
    found = ask(config, check="steps")
    assert (found["status"], found["exit_code"]) == ("ok", 0), found
