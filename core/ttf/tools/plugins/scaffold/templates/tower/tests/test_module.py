"""What is particular to this tower; what holds for every tower is in test_conformance.py."""

from __future__ import annotations

import pytest
import torch
from ttf import TowerShape

from ttf_tower_your_name._module import YourNameTower
from ttf_tower_your_name.plugin import Options

SHAPE = TowerShape(in_dim=6, length=4, sequence=True, out_dim=6)


def test_it_starts_as_the_weighted_mean_of_the_steps() -> None:
    x_BLD = torch.randn(3, 4, 6)
    newest_counts_most = torch.tensor([1 / 4, 1 / 3, 1 / 2, 1])
    weight_L = newest_counts_most / newest_counts_most.sum()
    expected_BD = (x_BLD * weight_L[:, None]).sum(1)
    tower = YourNameTower(SHAPE, Options())
    torch.testing.assert_close(tower(x_BLD), expected_BD)


@pytest.mark.parametrize("decay", [0.0, 1.0, 5.0])
def test_the_more_decay_the_less_old_steps_count(decay: float) -> None:
    oldest_BLD = torch.zeros(1, 4, 6)
    oldest_BLD[:, 0] = 1
    tower = YourNameTower(SHAPE, Options(decay=decay))
    expected = 4.0**-decay / sum(n**-decay for n in (1, 2, 3, 4))
    torch.testing.assert_close(tower(oldest_BLD)[0, 0].item(), expected)
