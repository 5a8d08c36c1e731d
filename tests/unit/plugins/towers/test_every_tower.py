"""What the built-in towers promise beyond `ttf.testing`: their starts, and words for wrong input.

`TestVariants` asks the questions of `ttf.testing` again for options that take another way through the
code; with the options of tests/system/testing they are asked there.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.kit.suites import OptionsAlone
from torch import Tensor, nn

from ttf.contracts import TowerShape
from ttf.errors import BadData, ConfigError
from ttf.host import plugins
from ttf.testing import TowerTests

DIM, STEPS, BATCH = 12, 5, 6

SMALL: dict[str, dict[str, Any]] = {
    "gru": {"hidden": 8},
    "lstm": {"hidden": 8},
    "transformer": {"width": 16, "feedforward": 24},
    "mlp": {"hidden": 20},
    "linear": {},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *(("gru", {"pool": pool}) for pool in ("last", "attention")),
    ("gru", {"layers": 2, "bidirectional": False, "pool": "max", "norm": True}),
    ("gru", {"hidden": 6, "project": False, "dropout": 0.0, "residual": "none"}),
    ("lstm", {"layers": 2, "bidirectional": False, "residual": "last", "pool": "final"}),
    ("lstm", {"hidden": 6, "project": False, "residual": "mean", "pool": "mean"}),
    ("transformer", {"pool": "cls"}),
    ("transformer", {"layers": 1, "heads": 1, "dropout": 0.0, "residual": "none"}),
    ("mlp", {"pool": "weighted"}),
    ("mlp", {"layers": 3, "activation": "relu", "norm": True, "residual": "none", "pool": "max"}),
    ("linear", {"bias": True, "pool": "last"}),
    ("identity", {"pool": "last"}),
]


def label(variant: tuple[str, dict[str, Any]]) -> str:
    name, options = variant
    return "-".join([name, *(f"{k}={v}" for k, v in options.items())])


class TestVariants(OptionsAlone, TowerTests):  # type: ignore[misc]  # questions left out are None
    @pytest.fixture(autouse=True, params=VARIANTS, ids=label)
    def _variant(self, request: pytest.FixtureRequest) -> None:
        name, options = request.param
        vars(self).update(name=name, options={**SMALL.get(name, {}), **options})


every_tower = pytest.mark.parametrize("name", [*SMALL, "identity"])


def shape_of(*, sequence: bool = True, out_dim: int = DIM, in_dim: int = DIM) -> TowerShape:
    steps = STEPS if sequence else 1
    return TowerShape(in_dim=in_dim, length=steps, sequence=sequence, out_dim=out_dim)


def make(name: str, options: dict[str, Any], shape: TowerShape | None = None) -> nn.Module:
    torch.manual_seed(1)
    factory = plugins.usable("tower", name)
    return factory.create(shape or shape_of(), factory.options_type(**options))


def batch(sequence: bool = True) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    size = (BATCH, STEPS, DIM) if sequence else (BATCH, DIM)
    return torch.randn(*size, generator=generator)


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_linear_and_mlp_start_as_the_identity(name: str) -> None:
    module = make(name, SMALL[name], shape_of(sequence=False)).train()
    torch.testing.assert_close(module(batch(sequence=False)), batch(sequence=False))


@pytest.mark.parametrize("name", ["gru", "lstm", "transformer"])
@pytest.mark.parametrize("residual", ["auto", "last", "mean", "weighted"])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
def test_sequence_towers_start_as_their_residual_vector(
    name: str, residual: str, ragged: bool
) -> None:
    module = make(name, {**SMALL[name], "residual": residual}).train()
    lengths = torch.tensor([5, 4, 3, 2, 1, 5] if ragged else [STEPS] * BATCH)
    expected = []
    for row, length in zip(batch(), lengths.tolist(), strict=True):
        age = torch.arange(length - 1, -1, -1)
        weight = {
            "last": (age == 0).float(),
            "mean": torch.ones(length),
        }.get(residual, 1 / (1 + age))
        expected.append((row[:length] * (weight / weight.sum())[:, None]).sum(0))
    out = module(batch(), lengths)
    cosine = nn.functional.cosine_similarity(out, torch.stack(expected), dim=1)
    assert cosine.min() > 1 - 1e-6


@pytest.mark.parametrize("name", SMALL)
def test_vectors_of_the_wrong_width_are_named(name: str) -> None:
    with pytest.raises(BadData, match=r"width 12 got an array of the shape \(6, 5, 9\)"):
        make(name, SMALL[name])(torch.randn(BATCH, STEPS, 9))


@every_tower
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
def test_an_empty_batch_has_no_vectors(name: str, ragged: bool) -> None:
    lengths = torch.empty(0, dtype=torch.int64) if ragged else None
    found = make(name, SMALL.get(name, {}))(torch.empty(0, STEPS, DIM), lengths)
    assert found.shape == (0, DIM)


@every_tower
@pytest.mark.parametrize("wrong", [0, STEPS + 1])
def test_lengths_out_of_range_name_their_row(name: str, wrong: int) -> None:
    tower = make(name, SMALL.get(name, {}))
    lengths = torch.tensor([1, 2, 3, wrong, 1, 1])
    with pytest.raises(BadData, match=f"Row 3 of the batch has the length {wrong}"):
        tower(batch(), lengths)
    with pytest.raises(BadData, match="but there are 6 sequences"):
        tower(batch(), torch.tensor([1, 2]))


def test_the_identity_tower_refuses_to_change_the_width() -> None:
    with pytest.raises(
        ConfigError, match=r"width 12, but the other tower returns vectors of width 7"
    ) as caught:
        make("identity", {}, shape_of(out_dim=7))
    assert "linear" in caught.value.hint
