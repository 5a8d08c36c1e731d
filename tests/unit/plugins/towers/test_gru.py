"""The CPU's own GRU: nn.GRU's results and gradients, with needed work only."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.kit.widely import wide
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils._python_dispatch import TorchDispatchMode

from ttf.contracts import TowerShape
from ttf.host import plugins
from ttf.training.optimizer import PlainAdamW
from ttf_towers._modules.gru import NativeGru, Need, supported

DIM, HIDDEN, BATCH, STEPS = 6, 4, 5, 7
NEEDS: list[Need] = ["all", "final", "last"]
RAGGED = torch.tensor([3, 7, 1, 5, 3])
every_need = pytest.mark.parametrize("need", NEEDS)
full_and_ragged = pytest.mark.parametrize("lengths", [None, RAGGED], ids=["full", "ragged"])


def make(layers: int = 1, bidirectional: bool = True, **more: Any) -> nn.GRU:
    torch.manual_seed(1)
    return nn.GRU(DIM, HIDDEN, layers, batch_first=True, bidirectional=bidirectional, **more)


def batch(steps: int = STEPS, rows: int = BATCH, dim: int = DIM) -> Tensor:
    return torch.randn(rows, steps, dim, generator=torch.Generator().manual_seed(steps))


def reference(rnn: nn.GRU, x: Tensor, lengths: Tensor | None, need: Need) -> Tensor:
    """What a script around nn.GRU does, packed where sequences are shorter."""
    if lengths is None:
        states, final = rnn(x)
    else:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, final = rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
    if need == "all":
        return torch.as_tensor(states)
    if need == "final":
        directions = 2 if rnn.bidirectional else 1
        return torch.as_tensor(final[-directions:].transpose(0, 1).flatten(1))
    last = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
    return torch.as_tensor(states[torch.arange(len(x)), last - 1])


def gradients(out: Tensor, rnn: nn.GRU, x: Tensor) -> list[Tensor]:
    goal = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
    wanted = [*rnn.parameters(), *([x] if x.requires_grad else [])]
    return list(torch.autograd.grad(out, wanted, goal.to(out.dtype)))


@pytest.fixture(params=["highest", "medium"])
def float32_matmul(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


@every_need
@full_and_ragged
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.usefixtures("float32_matmul")
def test_outputs_and_gradients_are_those_of_nn_gru(
    need: Need, lengths: Tensor | None, layers: int, bidirectional: bool
) -> None:
    rnn = make(layers, bidirectional)
    x = batch().requires_grad_()
    ours = NativeGru()(rnn, x, lengths, need)
    theirs = reference(rnn, x, lengths, need)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for mine, other in zip(gradients(ours, rnn, x), gradients(theirs, rnn, x), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@every_need
def test_so_they_are_over_many_chunks_of_rows(need: Need, float32_matmul: str) -> None:
    torch.manual_seed(2)
    rnn = nn.GRU(24, 32, batch_first=True, bidirectional=True)
    x = batch(steps=60, rows=48, dim=24)
    lengths = torch.randint(1, 61, (48,))
    for given in (None, lengths):
        ours = NativeGru()(rnn, x, given, need)
        theirs = reference(rnn, x, given, need)
        assert_alike(ours, theirs, 1e-5, float32_matmul)
        for mine, other in zip(gradients(ours, rnn, x), gradients(theirs, rnn, x), strict=True):
            assert_alike(mine, other, 1e-4, float32_matmul)


def assert_alike(ours: Tensor, theirs: Tensor, tolerance: float, precision: str) -> None:
    if precision == "highest":
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    else:  # a processor with bfloat16 units (AMX) may round each factor to 8 bits, nn.GRU's as well
        assert (ours - theirs).norm() <= 2**-7 * theirs.norm()


@every_need
@full_and_ragged
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("steps", [pytest.param(1, marks=wide), 3])
def test_gradients_are_those_of_finite_differences(
    need: Need, lengths: Tensor | None, layers: int, steps: int
) -> None:
    torch.manual_seed(1)
    rnn = nn.GRU(3, 2, layers, batch_first=True, bidirectional=True, dropout=0.4 * (layers - 1))
    rnn = rnn.double().train()
    given = None if lengths is None else lengths[:3].clamp(max=steps)
    x = batch(steps, 3, 3).double().requires_grad_()
    weights = list(rnn.parameters())

    def run(x: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(5)
        return NativeGru()(rnn, x, given, need)

    assert torch.autograd.gradcheck(run, (x, *weights), fast_mode=layers == 2 or steps == 1)


def test_dropout_falls_between_layers_and_only_in_training() -> None:
    rnn, native = make(2, dropout=0.5), NativeGru()
    drawn = [native(rnn, batch(), None, "all") for _ in range(2)]
    assert not torch.equal(*drawn)
    rnn.eval()
    torch.testing.assert_close(
        native(rnn, batch(), None, "all"), reference(rnn, batch(), None, "all")
    )


def other_weights(rnn: nn.GRU) -> None:
    rnn.load_state_dict({k: v * 1.5 for k, v in rnn.state_dict().items()})


def optimizer_step(rnn: nn.GRU) -> None:
    optimizer = torch.optim.AdamW(rnn.parameters(), lr=0.1, fused=True)
    torch.autograd.backward(rnn(batch())[0].sum())
    optimizer.step()


def there_and_back(rnn: nn.GRU) -> None:
    rnn.half().float()


def replaced(rnn: nn.GRU) -> None:
    weight = rnn.get_parameter("weight_hh_l0")
    rnn.weight_hh_l0 = nn.Parameter(weight.detach() + 1)


def own_optimizer_step(rnn: nn.GRU) -> None:
    optimizer = PlainAdamW(rnn.parameters(), lr=0.1, fused=True)
    torch.autograd.backward(rnn(batch())[0].sum())
    optimizer.step()


def written_through_data(rnn: nn.GRU) -> None:
    rnn.get_parameter("weight_hh_l0").data.mul_(1.5)


CHANGES = [
    other_weights,
    optimizer_step,
    own_optimizer_step,
    there_and_back,
    replaced,
    written_through_data,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("float32_matmul")
def test_weights_made_ready_follow_every_change(change: Callable[[nn.GRU], None]) -> None:
    rnn, native = make(), NativeGru()
    before = native(rnn, batch(), None, "all")
    change(rnn)
    after = native(rnn, batch(), None, "all")
    assert not torch.equal(before, after)
    assert torch.equal(after, NativeGru()(rnn, batch(), None, "all"))


@pytest.mark.usefixtures("float32_matmul")
def test_a_tower_that_has_run_can_be_copied_and_saved() -> None:
    factory = plugins.usable("tower", "gru")
    shape = TowerShape(in_dim=DIM, length=STEPS, sequence=True, out_dim=DIM)
    tower = factory.create(shape, factory.options_type(hidden=HIDDEN)).eval()
    expected: Tensor = tower(batch())
    buffer = io.BytesIO()
    torch.save(tower, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for twin in (copy.deepcopy(tower), loaded):
        assert torch.equal(twin(batch()), expected)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(1)
        assert not torch.equal(twin(batch()), expected)
    assert torch.equal(tower(batch()), expected)


@every_need
@full_and_ragged
def test_nothing_is_kept_where_no_gradient_is_wanted(need: Need, lengths: Tensor | None) -> None:
    rnn, native = make(), NativeGru()
    with_gradient = native(rnn, batch(), lengths, need)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            without = native(rnn, batch(), lengths, need)
        assert without.grad_fn is None
        assert torch.equal(without, with_gradient)
    rnn.requires_grad_(False)
    assert native(rnn, batch(), lengths, need).grad_fn is None


@pytest.mark.usefixtures("float32_matmul")
def test_weights_made_ready_in_inference_mode_serve_training_as_well() -> None:
    rnn, native = make(2), NativeGru()
    with torch.inference_mode():
        native(rnn, batch(), RAGGED, "all")
    found = gradients(native(rnn, batch(), RAGGED, "all"), rnn, batch())
    right = gradients(NativeGru()(rnn, batch(), RAGGED, "all"), rnn, batch())
    assert all(torch.equal(a, b) for a, b in zip(found, right, strict=True))


def test_frozen_weights_get_no_gradient_and_the_others_the_same() -> None:
    rnn = make()
    whole = gradients(NativeGru()(rnn, batch(), None, "all"), rnn, batch())
    rnn.weight_ih_l0.requires_grad_(False)
    out = NativeGru()(rnn, batch(), None, "all")
    goal = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
    torch.autograd.backward(out, goal)
    for (name, parameter), other in zip(rnn.named_parameters(), whole, strict=True):
        if name == "weight_ih_l0":
            assert parameter.grad is None
        else:
            assert torch.equal(torch.as_tensor(parameter.grad), other)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.usefixtures("float32_matmul")
def test_the_same_bits_come_back_whatever_ran_before(half: bool) -> None:
    rnn, native = make(), NativeGru()

    def run() -> list[Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            out = native(rnn, batch(), RAGGED, "all")
        return [out, *gradients(out, rnn, batch())]

    first = run()
    native(rnn, batch(steps=2, rows=9), None, "last").sum()
    torch.use_deterministic_algorithms(True)
    try:
        again = run()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_backward_may_be_repeated_but_not_after_the_weights_changed() -> None:
    rnn = make()
    out = NativeGru()(rnn, batch(), None, "last")
    goal = torch.ones_like(out)
    first = torch.autograd.grad(out, list(rnn.parameters()), goal, retain_graph=True)
    again = torch.autograd.grad(out, list(rnn.parameters()), goal, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out, list(rnn.parameters()), goal)


def test_gates_of_an_earlier_graph_are_not_overwritten_unseen() -> None:
    rnn, native = make(), NativeGru()
    out = native(rnn, batch(), None, "all")
    goal, weights = torch.ones_like(out), list(rnn.parameters())
    first = torch.autograd.grad(out, weights, goal, retain_graph=True)
    two = [native(rnn, 2 * batch(), None, "all") for _ in range(2)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out, weights, goal)
    both = [torch.autograd.grad(other, weights, goal) for other in two]
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))
    assert not torch.equal(first[0], both[0][0])


@every_need
def test_bf16_products_are_as_near_to_float32_as_under_autocast_of_nn_gru(need: Need) -> None:
    """Outputs within 0.01, gradients within 2% of their norm, at the reference widths."""
    torch.manual_seed(1)
    rnn = nn.GRU(768, 256, batch_first=True, bidirectional=True)
    x = nn.functional.normalize(batch(steps=24, rows=8, dim=768), dim=-1) * 20
    exact = reference(rnn, x, None, need)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = NativeGru()(rnn, x, None, need)
        theirs = reference(rnn, x, None, need).float()
    assert ours.dtype == torch.float32
    error = (ours - exact).abs().max()
    assert error < 0.01
    assert error <= (theirs - exact).abs().max()
    for mine, right in zip(gradients(ours, rnn, x), gradients(exact, rnn, x), strict=True):
        assert (mine - right).norm() <= 0.02 * right.norm()


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts multiplications of matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "addmm_"):
            left, right = args[-2:]
            self.count += left.shape[0] * left.shape[1] * right.shape[1]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("pool", ["mean", "final", "last"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("steps", [1, 9])
def test_a_forward_makes_the_products_of_the_estimate_and_no_other(
    pool: str, layers: int, steps: int
) -> None:
    factory = plugins.usable("tower", "gru")
    options = factory.options_type(hidden=HIDDEN, pool=pool, layers=layers, residual="none")
    shape = TowerShape(in_dim=DIM, length=steps, sequence=steps > 1, out_dim=DIM)
    tower = factory.create(shape, options)
    with Products() as seen:
        tower(batch(steps))
    made = 2 * seen.count / BATCH + 2 * DIM  # the head's bias is no product
    assert made == factory.estimate(shape, options).forward_flops


def test_padding_and_the_gradient_of_the_input_cost_nothing_where_not_needed() -> None:
    def cost(lengths: Tensor | None, wants_x: bool) -> int:
        rnn = make()
        x = batch().requires_grad_(wants_x)
        with Products() as seen:
            gradients(NativeGru()(rnn, x, lengths, "all"), rnn, x)
        return int(seen.count)

    row = 3 * HIDDEN * DIM * 2 * BATCH * STEPS
    assert cost(None, True) - cost(None, False) == row
    assert cost(RAGGED, False) < cost(None, False) * 0.6


@pytest.mark.filterwarnings("ignore:The tensor attributes self.rnn._flat_weights")  # of torch
@pytest.mark.parametrize("pool", ["mean", "last"])
def test_a_tower_can_be_exported_for_batches_of_any_size(pool: str) -> None:
    factory = plugins.usable("tower", "gru")
    shape = TowerShape(in_dim=DIM, length=STEPS, sequence=True, out_dim=DIM)
    tower = factory.create(shape, factory.options_type(hidden=HIDDEN, pool=pool)).eval()
    batches = {"x": {0: torch.export.Dim.DYNAMIC}}
    exported = torch.export.export(tower, (batch(rows=3),), dynamic_shapes=batches).module()
    for rows in (2, 7):
        torch.testing.assert_close(exported(batch(rows=rows)), tower(batch(rows=rows)))


def test_other_types_and_devices_are_left_to_torch() -> None:
    rnn, x = make(), batch()
    assert supported(x, rnn)
    assert supported(x.double(), make().double())
    assert not supported(x.double(), rnn)
    assert not supported(x.bfloat16(), make().bfloat16())
    assert not supported(x.to("meta"), make().to("meta"))
    assert not supported(x, nn.LSTM(DIM, HIDDEN))
    with torch.autocast("cpu", dtype=torch.float16):
        assert not supported(x, rnn)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert supported(x, rnn)
        assert not supported(x.double(), make().double())
