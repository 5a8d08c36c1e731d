"""Options of the towers: all problems at once, and configurations no tower can be built from."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ttf.contracts import TowerShape
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.host.options import describe, validate

NAMES = ["gru", "identity", "linear", "lstm", "mlp", "transformer"]
SHAPE = TowerShape(in_dim=12, length=5, sequence=True, out_dim=12)

WRONG: dict[str, dict[str, Any]] = {
    "gru": {"hiden": 3, "pool": "lst", "dropout": 1.0, "layers": 0},
    "lstm": {"hidden": 0, "residual": "max", "project": "perhaps"},
    "transformer": {"head": 2, "heads": 0, "pool": "max", "dropout": -0.1},
    "mlp": {"hidden": -1, "activation": "swish", "pool": "attention"},
    "linear": {"bias": 3, "residual": "last", "poll": "mean"},
    "identity": {"pool": "max", "hidden": 3},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_wrong_option_is_reported_at_once(name: str) -> None:
    options, problems = validate(
        plugins.usable("tower", name).options_type, WRONG[name], "tower.query"
    )
    assert options is None
    assert len(problems) == len(WRONG[name])
    for key in WRONG[name]:
        assert any(p.startswith(f"tower.query.{key}: ") for p in problems), (key, problems)


@pytest.mark.parametrize("name", NAMES)
def test_the_defaults_are_valid_described_and_build_a_tower(name: str) -> None:
    factory = plugins.usable("tower", name)
    options, problems = validate(factory.options_type, {}, "tower.query")
    assert problems == []
    assert all(info.help for info in describe(factory.options_type))
    assert factory.availability().ok
    assert factory.name == name
    factory.create(SHAPE, options)


@pytest.mark.parametrize(
    ("name", "values", "out_dim", "message", "hint"),
    [
        (
            "transformer",
            {"width": 30, "heads": 4},
            12,
            "The width 30 of the transformer tower is not a multiple",
            "heads = 3",
        ),
        (
            "gru",
            {"residual": "last"},
            7,
            r"input has the width 12, and the output has the width 7",
            "auto",
        ),
        ("lstm", {"residual": "weighted"}, 7, r"residual = 'weighted' of the", "none"),
        ("transformer", {"residual": "mean"}, 7, "both need the same width", "none"),
        ("gru", {"project": False, "hidden": 5}, 12, "hidden 5 x 2 directions", "project = true"),
        ("identity", {}, 7, "width 12, but the other tower returns vectors of width 7", "linear"),
    ],
)
def test_what_cannot_be_built_says_why_before_anything_is_built(
    name: str, values: dict[str, Any], out_dim: int, message: str, hint: str
) -> None:
    factory = plugins.usable("tower", name)
    shape = TowerShape(in_dim=12, length=5, sequence=True, out_dim=out_dim)
    options = factory.options_type(**values)
    for action in (factory.create, factory.estimate):
        with pytest.raises(ConfigError, match=message) as caught:
            action(shape, options)
        assert hint in caught.value.hint


def test_plugins_describe_and_estimate_without_importing_torch_or_numpy() -> None:
    code = f"""
import sys
from ttf.host import plugins
from ttf.contracts import TowerShape
shape = TowerShape(in_dim=12, length=5, sequence=True, out_dim=12)
for name in {NAMES}:
    factory = plugins.load("tower", name)
    factory.availability()
    factory.estimate(shape, factory.options_type())
heavy = {{"torch", "numpy", "pydantic", "rich"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
