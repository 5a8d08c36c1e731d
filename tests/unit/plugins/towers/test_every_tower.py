"""What holds for every tower, whatever is inside: shapes, lengths, seeds, starts, costs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from ttf.contracts import Tower, TowerShape
from ttf.errors import BadData, ConfigError
from ttf.host import plugins

DIM, STEPS, BATCH = 12, 5, 6

SMALL: dict[str, dict[str, Any]] = {
    "gru": {"hidden": 8},
    "lstm": {"hidden": 8},
    "transformer": {"width": 16, "feedforward": 24},
    "mlp": {"hidden": 20},
    "linear": {},
}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "gru": [
        *({"pool": p} for p in ("last", "final", "mean", "max", "attention")),
        {"layers": 2, "bidirectional": False, "pool": "last", "norm": True},
        {"hidden": 6, "project": False, "dropout": 0.0},
        {"residual": "none", "layers": 2},
    ],
    "lstm": [
        *({"pool": p} for p in ("last", "final", "attention")),
        {"layers": 2, "bidirectional": False, "residual": "last"},
        {"hidden": 6, "project": False, "residual": "mean"},
    ],
    "transformer": [
        *({"pool": p} for p in ("last", "mean", "attention", "cls")),
        {"layers": 1, "heads": 1, "dropout": 0.0, "residual": "none"},
    ],
    "mlp": [
        *({"pool": p} for p in ("mean", "last", "first", "max", "weighted")),
        {"layers": 3, "activation": "relu", "norm": True, "dropout": 0.0, "residual": "none"},
    ],
    "linear": [*({"pool": p} for p in ("mean", "last", "first", "max")), {"bias": True}],
}


def label(name: str, options: dict[str, Any]) -> str:
    return "-".join([name, *(f"{k}={v}" for k, v in options.items())])


TRAINABLE = [
    pytest.param(name, {**SMALL[name], **options}, id=label(name, options))
    for name, variants in VARIANTS.items()
    for options in variants
]
FROZEN = [
    pytest.param("identity", {"pool": pool}, id=f"identity-pool={pool}")
    for pool in ("mean", "last")
]
EVERY = TRAINABLE + FROZEN
every_tower = pytest.mark.parametrize(("name", "options"), EVERY)
trainable_tower = pytest.mark.parametrize(("name", "options"), TRAINABLE)


def shape_of(*, sequence: bool = True, out_dim: int = DIM, in_dim: int = DIM) -> TowerShape:
    steps = STEPS if sequence else 1
    return TowerShape(in_dim=in_dim, length=steps, sequence=sequence, out_dim=out_dim)


def make(name: str, options: dict[str, Any], shape: TowerShape | None = None) -> nn.Module:
    torch.manual_seed(1)
    factory = plugins.tower(name)
    return factory.create(shape or shape_of(), factory.options_type(**options))


def stirred(name: str, options: dict[str, Any], shape: TowerShape | None = None) -> nn.Module:
    """The tower with random weights everywhere, as after some training; in eval mode."""
    module = make(name, options, shape)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module.eval()


def batch(sequence: bool = True) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    size = (BATCH, STEPS, DIM) if sequence else (BATCH, DIM)
    return torch.randn(*size, generator=generator)


@every_tower
@pytest.mark.parametrize("sequence", [True, False], ids=["sequences", "vectors"])
def test_it_meets_the_contract(name: str, options: dict[str, Any], sequence: bool) -> None:
    module = make(name, options, shape_of(sequence=sequence))
    assert isinstance(module, Tower)
    assert (module.in_dim, module.out_dim) == (DIM, DIM)
    assert module.frozen == (not any(p.requires_grad for p in module.parameters()))
    assert module.identity == (name == "identity" and not sequence)
    for mode in (True, False):
        out = module.train(mode)(batch(sequence))
        assert out.shape == (BATCH, DIM)
        assert out.dtype == torch.float32
        assert torch.isfinite(out).all()
        with torch.no_grad():
            assert module(batch(sequence)).shape == (BATCH, DIM)


@trainable_tower
def test_it_can_change_the_width(name: str, options: dict[str, Any]) -> None:
    options = {k: v for k, v in options.items() if k not in ("project", "residual")}
    module = stirred(name, options, shape_of(out_dim=7))
    assert module(batch()).shape == (BATCH, 7)
    assert module(batch()).std() > 0


@every_tower
def test_a_vector_counts_as_a_sequence_of_one_step(name: str, options: dict[str, Any]) -> None:
    module = stirred(name, options)
    x = batch(sequence=False)
    torch.testing.assert_close(module(x), module(x[:, None, :]))


@every_tower
def test_double_precision_and_autocast_work(name: str, options: dict[str, Any]) -> None:
    module = stirred(name, options)
    exact = module(batch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = module(batch())
    assert rough.shape == exact.shape
    assert nn.functional.cosine_similarity(rough.float(), exact, dim=1).min() > 0.99
    wide = module.double()(batch().double())
    assert wide.dtype == torch.float64
    torch.testing.assert_close(wide.float(), exact, rtol=1e-4, atol=1e-4)


@every_tower
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, STEPS), min_size=BATCH, max_size=BATCH),
    filler=st.sampled_from([0.0, 1e6, math.nan, math.inf]),
)
def test_what_lies_in_the_padding_does_not_matter(
    name: str, options: dict[str, Any], lengths: list[int], filler: float
) -> None:
    module = stirred(name, options)
    x = batch()
    for row, length in enumerate(lengths):
        x[row, length:] = filler
    with torch.no_grad():
        together = module(x, torch.tensor(lengths))
        alone = [module(x[i : i + 1, :n]) for i, n in enumerate(lengths)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)


@every_tower
def test_full_lengths_equal_no_lengths(name: str, options: dict[str, Any]) -> None:
    module = stirred(name, options)
    plain = module(batch())
    assert torch.equal(module(batch(), torch.full((BATCH,), STEPS)), plain)
    one_short = torch.tensor([STEPS] * (BATCH - 1) + [2])
    torch.testing.assert_close(module(batch(), one_short)[:-1], plain[:-1], rtol=1e-6, atol=2e-6)


@trainable_tower
def test_gradients_are_finite_and_ignore_padding(name: str, options: dict[str, Any]) -> None:
    module = stirred(name, options)
    x = batch()
    lengths = torch.tensor([1, 2, 3, 4, 5, 1])
    for row, length in enumerate(lengths):
        x[row, length:] = math.nan
    torch.autograd.backward(module(x, lengths).square().sum())
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key


@every_tower
def test_in_eval_mode_a_row_does_not_depend_on_its_batch(
    name: str, options: dict[str, Any]
) -> None:
    module = stirred(name, options)
    together = module(batch())
    order = torch.tensor([3, 0, 5, 1])
    torch.testing.assert_close(module(batch()[order]), together[order], rtol=1e-5, atol=1e-5)


@every_tower
def test_the_seed_decides_weights_and_results_bit_for_bit(
    name: str, options: dict[str, Any]
) -> None:
    def run() -> list[Tensor]:
        module = make(name, options).train()
        out = module(batch())
        if not out.requires_grad:
            return [out]
        torch.autograd.backward(out.square().sum())
        grads = [p.grad for p in module.parameters() if p.grad is not None]
        return [out.detach(), *module.state_dict().values(), *grads]

    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second)


@trainable_tower
def test_its_state_can_be_saved_and_loaded(name: str, options: dict[str, Any]) -> None:
    trained, fresh = stirred(name, options), make(name, options).eval()
    assert not torch.equal(trained(batch()), fresh(batch()))
    fresh.load_state_dict(trained.state_dict())
    assert torch.equal(trained(batch()), fresh(batch()))


@trainable_tower
def test_the_gradient_reaches_every_parameter(name: str, options: dict[str, Any]) -> None:
    module = stirred(name, options)
    goal = torch.randn(BATCH, DIM)
    torch.autograd.backward((module(batch()) * goal).sum())
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None, key
        # "last": the reverse direction takes one step, from a state of zero
        idle = options.get("pool") == "last" and key == "rnn.weight_hh_l0_reverse"
        assert idle or parameter.grad.abs().max() > 0, key


@trainable_tower
def test_one_optimizer_step_from_the_start_moves_the_output(
    name: str, options: dict[str, Any]
) -> None:
    module = make(name, options).eval()
    start = module(batch()).detach()
    torch.autograd.backward((module(batch()) * torch.randn(BATCH, DIM)).sum())
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad.sign() * 1e-2)  # Adam's first step
    assert (module(batch()) - start).abs().max() > 1e-3


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


@trainable_tower
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape_of(), id="sequences"),
        pytest.param(shape_of(sequence=False), id="vectors"),
        pytest.param(
            TowerShape(in_dim=48, length=30, sequence=True, out_dim=48), id="long-sequences"
        ),
    ],
)
def test_the_estimate_is_what_training_needs(
    name: str, options: dict[str, Any], shape: TowerShape
) -> None:
    if not options.get("project", True):
        options = {**options, "hidden": shape.out_dim // (2 if name in ("gru", "lstm") else 1)}
    factory = plugins.tower(name)
    module = make(name, options, shape)
    cost = factory.estimate(shape, factory.options_type(**options))
    assert cost.parameters == sum(p.numel() for p in module.parameters())
    assert cost.forward_flops >= 2 * shape.in_dim * shape.out_dim
    kept = kept_bytes(module, shape)
    assert kept / 2 <= cost.activation_bytes <= kept * 2, (kept, cost.activation_bytes)


def kept_bytes(module: nn.Module, shape: TowerShape) -> float:
    """Bytes per sample that autograd holds on to, weights apart."""
    rows = 64
    x = torch.randn(rows, shape.length, shape.in_dim)
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    held: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        out = module.train()(x if shape.sequence else x[:, 0])
    assert out.shape == (rows, shape.out_dim)
    return sum(t.untyped_storage().nbytes() for p, t in held.items() if p not in weights) / rows


@every_tower
def test_vectors_of_the_wrong_width_are_named(name: str, options: dict[str, Any]) -> None:
    if name == "identity":
        pytest.skip("vectors pass through it untouched")
    with pytest.raises(BadData, match=r"width 12 was given an array of shape \(6, 5, 9\)"):
        make(name, options)(torch.randn(BATCH, STEPS, 9))


@every_tower
@pytest.mark.parametrize("wrong", [0, STEPS + 1])
def test_lengths_out_of_range_name_their_row(
    name: str, options: dict[str, Any], wrong: int
) -> None:
    lengths = torch.tensor([1, 2, 3, wrong, 1, 1])
    with pytest.raises(BadData, match=f"Row 3 of the batch has length {wrong}"):
        make(name, options)(batch(), lengths)
    with pytest.raises(BadData, match="do not fit 6 sequences"):
        make(name, options)(batch(), torch.tensor([1, 2]))


def test_the_identity_tower_refuses_to_change_the_width() -> None:
    with pytest.raises(ConfigError, match=r"width 12, but the other side has width 7") as caught:
        make("identity", {}, shape_of(out_dim=7))
    assert "linear" in caught.value.hint
