"""The suite that ttf has for towers, and what is particular to this one."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from ttf import TowerShape
from ttf.testing import TowerTests

from ttf_tower_decay._module import DecayTower
from ttf_tower_decay.decay_tower import DecayOptions


class TestDecay(TowerTests):
    name = "decay"
    options: ClassVar[dict[str, Any]] = {"half_life": 3.0, "bias": True}


def test_a_step_of_the_half_lifes_age_counts_half() -> None:
    shape = TowerShape(in_dim=2, length=3, sequence=True, out_dim=2)
    tower = DecayTower(shape, DecayOptions(half_life=2.0))
    step = torch.eye(2)
    x = torch.stack([step[0], torch.zeros(2), step[1]])[None]
    (out,) = tower(x)
    torch.testing.assert_close(out[0] / out[1], torch.tensor(0.5))
