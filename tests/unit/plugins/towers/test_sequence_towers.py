"""What is particular to the towers that read sequences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ttf.contracts import TowerShape
from ttf.errors import BadData
from ttf.host import plugins

DIM, STEPS = 6, 4
SHAPE = TowerShape(in_dim=DIM, length=STEPS, sequence=True, out_dim=DIM)


def make(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(1)
    factory = plugins.usable("tower", name)
    return factory.create(SHAPE, factory.options_type(**options)).eval()


def sequences(rows: int = 3) -> Tensor:
    return torch.randn(rows, STEPS, DIM, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", [None, [4, 2, 3]], ids=["full", "ragged"])
@pytest.mark.parametrize("pool", ["last", "final"])
def test_last_is_the_last_output_and_final_the_final_state_of_each_direction(
    name: str, layers: int, lengths: list[int] | None, pool: str
) -> None:
    options = {"hidden": 3, "layers": layers, "pool": pool}
    tower = make(name, **options, residual="none", project=False)
    rnn = tower.rnn
    assert isinstance(rnn, nn.GRU | nn.LSTM)
    found = tower(sequences(), None if lengths is None else torch.tensor(lengths))
    for row, length in enumerate(lengths or [STEPS] * 3):
        outputs, _ = rnn(sequences()[row : row + 1, :length])
        reverse = outputs[0, -1 if pool == "last" else 0, 3:]
        torch.testing.assert_close(found[row], torch.cat([outputs[0, -1, :3], reverse]))


@pytest.mark.parametrize("name", ["gru", "lstm", "transformer"])
def test_the_order_of_steps_matters(name: str) -> None:
    tower = make(name, residual="none")
    assert not torch.allclose(tower(sequences()), tower(sequences().flip(1)), atol=1e-4)


def test_the_last_valid_step_has_the_same_position_however_long_the_padding() -> None:
    tower = make("transformer", residual="none", width=8, heads=2)
    x = sequences()
    padded = torch.cat([x[:, :2], torch.full((3, 2, DIM), 7.0)], 1)
    torch.testing.assert_close(tower(padded, torch.tensor([2, 2, 2])), tower(x[:, :2]))


@pytest.mark.parametrize("name", ["transformer", "mlp", "linear", "gru"])
def test_a_tower_with_learned_positions_refuses_longer_sequences(name: str) -> None:
    with pytest.raises(BadData, match="up to 4 steps, but got a sequence of 6"):
        make(name)(torch.randn(2, 6, DIM))


def test_layers_of_the_transformer_do_not_start_equal() -> None:
    layers = [dict(m.named_parameters()) for m in make("transformer", width=8, heads=2).layers]  # type: ignore[union-attr]
    weights = [layer["linear1.weight"] for layer in layers]
    assert not torch.equal(weights[0], weights[1])


def test_dropout_is_active_in_training_and_only_there() -> None:
    tower = make("gru", residual="none", dropout=0.5)
    assert torch.equal(tower(sequences()), tower(sequences()))
    tower.train()
    assert not torch.equal(tower(sequences()), tower(sequences()))


def test_the_mlp_sees_pooled_last_and_mean_of_a_sequence_only_when_weighted() -> None:
    seen = {pool: make("mlp", pool=pool).summaries for pool in ("weighted", "mean", "last")}
    assert seen == {"weighted": 3, "mean": 1, "last": 1}
