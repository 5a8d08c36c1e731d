"""The built-in towers pass what a stranger's must."""

from __future__ import annotations

from tests.conformance.once import OneOfMany

from ttf.testing import TowerTests


class TestGru(TowerTests):
    name = "gru"
    options = {"hidden": 8}


class TestLstm(OneOfMany, TowerTests):
    name = "lstm"
    options = {"hidden": 8}


class TestTransformer(OneOfMany, TowerTests):
    name = "transformer"
    options = {"width": 16, "feedforward": 24}


class TestMlp(OneOfMany, TowerTests):
    name = "mlp"
    options = {"hidden": 20}


class TestLinear(OneOfMany, TowerTests):
    name = "linear"


class TestIdentity(OneOfMany, TowerTests):
    name = "identity"
