"""What ttf promises about every tower, asked of this one."""

from __future__ import annotations

from ttf.testing import TowerTests


class TestYourName(TowerTests):
    name = "your-name"


class TestYourNameWithoutResidual(TowerTests):
    """YOUR NETWORK: a class for each setting that takes another path through it."""

    name = "your-name"
    options = {"residual": "none", "bias": False, "decay": 0.0}
