"""What ttf promises about every tower, asked of this one."""

from __future__ import annotations

from typing import ClassVar

from ttf.testing import TowerTests


class TestYourName(TowerTests):
    name = "your-name"


class TestYourNameWithoutResidual(TowerTests):
    """YOUR NETWORK: a class for each setting that takes another path through it."""

    name = "your-name"
    options: ClassVar = {"residual": "none", "bias": False, "decay": 0.0}
