"""The built-in towers pass what a stranger's must."""

from __future__ import annotations

from tests.kit.suites import Variant

from ttf.testing import TowerTests


class TestGru(TowerTests):
    name = "gru"
    options = {"hidden": 8}


class TestLstm(Variant, TowerTests):
    name = "lstm"
    options = {"hidden": 8}


class TestTransformer(Variant, TowerTests):
    name = "transformer"
    options = {"width": 16, "feedforward": 24}


class TestMlp(Variant, TowerTests):
    name = "mlp"
    options = {"hidden": 20}


class TestLinear(Variant, TowerTests):
    name = "linear"


class TestIdentity(Variant, TowerTests):
    name = "identity"
