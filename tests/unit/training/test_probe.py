"""The parity probe: a device that computes wrongly is noticed and named; a run is not touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import FakeDistribution
from tests.kit.small_training import FP32, IDENTITY, LINEAR, MLP, World, open_small
from tests.kit.standin_device import SOURCE

from ttf.config.resolve import resolve
from ttf.config.safety_schema import ProbeConfig
from ttf.contracts import Precision
from ttf.data.dataset import Dataset
from ttf.data.open_dataset import open_dataset
from ttf.data.synth import SynthShape, write_synth
from ttf.errors import DeviceMistrusted, ExitCode, NumericFailure
from ttf.host import plugins
from ttf.machine.devices import choose
from ttf.rundir.documents import ProbeLine
from ttf.training.auto_settings import decide
from ttf.training.device_probe import Probe, _comparable
from ttf.training.gradient_difference import differences
from ttf.training.session import assemble

DROPPING = MLP | {"dropout": 0.5}
TOWERS: dict[str, dict[str, Any]] = {
    "fixed documents": {"query": DROPPING, "doc": IDENTITY},
    "trainable documents": {"query": LINEAR, "doc": DROPPING},
    "in chunks": {"query": DROPPING, "doc": MLP, "grad_cache": True, "micro_batch": 8},
    "learned temperature": {
        "query": DROPPING,
        "doc": IDENTITY,
        "micro_batch": 8,
        "loss": {"learn_temperature": True},
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.fixture
def standin(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("standin", {"device.standin": "standin_device"})
    fake_plugins.module("standin_device", SOURCE)


def probe_of(
    world: World, *, fault: str | None = None, bf16: bool = False, **config: Any
) -> tuple[Probe, list[ProbeLine]]:
    """A probe of that world, on the stand-in where a fault is named, and what it records."""
    lines: list[ProbeLine] = []
    stepper = world.stepper
    changes: dict[str, Any] = {}
    if fault is not None:
        factory = plugins.usable("device", "standin")
        changes["policy"] = factory.create(factory.options_type(fault=fault), 1)
    if bf16:
        changes["precision"] = Precision(name="bf16", reason="test")
    stepper.gradients = dataclasses.replace(stepper.gradients, **changes)
    probe = Probe(
        config=ProbeConfig(**config),
        stepper=stepper,
        data=world.data,
        order=world.order,
        mined=world.mined,
        record=lines.append,
    )
    return probe, lines


# --- a device that is right ------------------------------------------------------------------


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
@pytest.mark.usefixtures("standin")
def test_a_device_that_computes_rightly_passes(data: Dataset, towers: str, bf16: bool) -> None:
    world = World(data, **TOWERS[towers])
    probe, lines = probe_of(world, fault="none", bf16=bf16)
    report = probe(0)
    assert report.ok
    trained = [n for n, p in world.model.named_parameters() if p.requires_grad]
    assert report.parameters == len(trained)
    assert (report.worst.error > 1e-4) == bf16
    (line,) = lines
    assert (line["type"], line["step"], line["ok"]) == ("probe", 0, True)
    assert line["tolerance"] == (0.05 if bf16 else 0.001)


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.usefixtures("standin")
def test_a_device_that_needs_constant_shapes_is_compared_in_them(
    data: Dataset, towers: str
) -> None:
    probe, _ = probe_of(World(data, **TOWERS[towers]), fault="none")
    probe._policy.constant_shapes = True
    assert probe(0).worst.error < 1e-5


class DropsByItself(torch.nn.Linear):
    """As many towers are written: no dropout layer, and its own attention."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.attend = torch.nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        self.again = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.GRU(4, 4, 2, dropout=0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(super().forward(x), 0.5, self.training)
        x, _ = self.attend(x, x, x)
        out: torch.Tensor = self.again(x)[0]
        return out


def test_no_way_to_drop_values_is_left(data: Dataset) -> None:
    world = World(data)
    world.model.query = DropsByItself()
    own = _comparable(world.model, 0)
    x = torch.ones(3, 5, 4)
    assert torch.equal(own.query(x), own.query(x))
    recurrent = [m for m in own.modules() if isinstance(m, torch.nn.GRU)]
    assert recurrent[0].training, "recurrent layers on GPUs go backward in training only"
    assert not torch.equal(world.model.query(x), world.model.query(x))


def test_the_cpu_against_itself_is_bitwise_equal(data: Dataset) -> None:
    probe, _ = probe_of(World(data, query=DROPPING), every=1)
    report = probe(0)
    assert (report.loss_error, report.worst.error) == (0, 0)
    assert abs(report.worst.cosine - 1) < 1e-6


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sequences")
    shape = {"pairs": 200, "val": 20, "seq_len": 12, "dim": 32, "bank": 100, "seed": 3}
    paths = write_synth(folder, SynthShape(**shape))
    return {"pairs": str(paths["pairs"]), "bank": str(paths["bank"])}


@pytest.mark.parametrize("tower", ["gru", "lstm", "transformer", "mlp", "linear"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_tower_of_the_house_raises_a_false_alarm(
    sequences: dict[str, str], tower: str, precision: str
) -> None:
    flags = {"tower": tower, "precision": precision, "batch_size": 32, "threads": 1}
    resolved = resolve(flags={**sequences, **flags, "memory.budget": "1GiB"})
    policy = choose("cpu", {}, 1)
    with open_dataset(resolved.config.data) as opened:
        decided = decide(resolved, opened, policy)
        parts = assemble(decided, opened, policy)
        report = Probe(
            config=ProbeConfig(every=1),
            stepper=parts.stepper,
            data=opened,
            order=decided.order,
            mined=4,
            record=lambda line: None,
        )(0)
    assert report.ok
    assert report.worst.error < report.tolerance / 2


def test_a_gradient_that_is_rounding_only_is_no_mismatch() -> None:
    whole = torch.full((10,), 1.0)
    noise = torch.tensor([1e-8])
    (shift, _) = differences({"a": noise, "b": whole}, {"a": -noise, "b": whole}, 1e-3)
    assert shift.name == "a"
    assert shift.cosine < -0.999
    assert shift.error < 1e-3


# --- a device that is wrong ------------------------------------------------------------------

WRONG = {
    "scaled": ("query.", "1.0"),
    "one": ("query.hidden.0.bias", "1.00%", "1 of 4"),
    "nan": ("weight", "norm nan on the device"),
    "loss": ("query.", "the loss is"),
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.usefixtures("standin")
def test_a_device_that_computes_wrongly_is_named_with_the_parameter(
    data: Dataset, fault: str
) -> None:
    probe, lines = probe_of(World(data, query=MLP), fault=fault)
    with pytest.raises(NumericFailure) as caught:
        probe(7)
    assert caught.value.exit_code is ExitCode.NUMERIC
    assert not isinstance(caught.value, DeviceMistrusted)
    text = str(caught.value)
    for part in ("device standin", "step 7", "on the CPU", *WRONG[fault]):
        assert part in text
    assert "--device cpu" in caught.value.hint
    (line,) = lines
    assert (line["step"], line["ok"]) == (7, False)
    assert line["parameter"] in text


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.usefixtures("standin")
def test_gradients_one_percent_off_are_caught_whatever_is_trained(
    data: Dataset, towers: str
) -> None:
    settings = TOWERS[towers] | {"query": DROPPING}
    probe, lines = probe_of(World(data, **settings), fault="scaled")
    with pytest.raises(NumericFailure):
        probe(0)
    assert lines[0]["loss_error"] < 1e-6, "the loss alone would have told nothing"
    assert 0.009 < lines[0]["grad_error"] < 0.04


@pytest.mark.usefixtures("standin")
def test_one_wrong_gradient_among_many_is_the_only_one_counted(data: Dataset) -> None:
    probe, lines = probe_of(World(data, query=MLP), fault="one")
    with pytest.raises(NumericFailure):
        probe(0)
    assert (lines[0]["wrong"], lines[0]["parameters"]) == (1, 4)
    assert lines[0]["grad_norm"] == pytest.approx(1.01 * lines[0]["grad_norm_cpu"], rel=1e-5)


@pytest.mark.usefixtures("standin")
def test_a_layer_that_starts_at_zero_hides_nothing_behind_it(data: Dataset) -> None:
    world = World(data, query={"name": "mlp", "hidden": 16, "dropout": 0.0})
    last = [p for n, p in world.model.named_parameters() if p.dim() > 1 and not p.any()]
    assert last, "the test needs a layer of zeros"
    probe, lines = probe_of(world, fault="none")
    probe(0)
    assert lines[0]["wrong"] == 0
    probe, lines = probe_of(world, fault="scaled")
    with pytest.raises(NumericFailure):
        probe(0)
    assert lines[0]["wrong"] == lines[0]["parameters"]
    assert not any(p.any() for p in last), "the run's own weights stay as they were"


@pytest.mark.usefixtures("standin")
def test_by_policy_the_run_goes_on_with_the_cpu(data: Dataset) -> None:
    probe, lines = probe_of(World(data), fault="scaled", on_mismatch="cpu")
    with pytest.raises(DeviceMistrusted, match="device standin") as caught:
        probe(0)
    assert caught.value.remedy == {"device.name": "cpu"}
    assert caught.value.exit_code == 4
    assert lines[0]["ok"] is False


@pytest.mark.usefixtures("standin")
def test_a_tolerance_given_is_the_one_that_counts(data: Dataset) -> None:
    probe, _ = probe_of(World(data, query=MLP), fault="one", tolerance=0.02)
    assert probe(0).ok
    probe, _ = probe_of(World(data), fault="scaled", bf16=True)
    assert probe(0).ok, "one percent is within what bf16 costs"


def test_a_cpu_that_differs_from_itself_is_not_sent_to_the_cpu(data: Dataset) -> None:
    probe, _ = probe_of(World(data, query=MLP), bf16=True, tolerance=1e-6, on_mismatch="cpu")
    with pytest.raises(NumericFailure, match="the results differ") as caught:
        probe(0)
    assert not isinstance(caught.value, DeviceMistrusted)


def test_what_is_not_finite_on_both_sides_is_left_to_the_step(data: Dataset) -> None:
    world = World(data, query=MLP)
    with torch.no_grad():
        next(world.model.query.parameters())[0, 0] = torch.inf
    probe, _ = probe_of(world, every=1)
    assert probe(0).ok


# --- when, and what it leaves behind ---------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "every", "wanted"),
    [
        (None, 0, []),
        (None, 3, [0, 3, 6]),
        ("none", 0, [0]),
        ("none", 4, [0, 4]),
    ],
)
@pytest.mark.usefixtures("standin")
def test_it_is_due_at_the_start_where_asked_and_every_so_many_steps(
    data: Dataset, fault: str | None, every: int, wanted: list[int]
) -> None:
    probe, lines = probe_of(World(data), fault=fault, every=every)
    for step in range(8):
        for _ in range(2):  # the loop may come to a step boundary twice
            if probe.due(step):
                probe(step)
    assert [line["step"] for line in lines] == wanted


@pytest.mark.usefixtures("standin")
def test_a_process_that_goes_on_probes_where_it_starts(data: Dataset) -> None:
    probe, _ = probe_of(World(data), fault="none", every=4)
    assert probe.due(5)
    probe(5)
    assert not probe.due(6)
    assert probe.due(8)


def everything(world: World) -> dict[str, Any]:
    """All that a run's future follows from, and what a probe could have left."""
    state = world.optimizer.state_dict()["state"]
    return {
        **world.weights(),
        **{f"{i}.{name}": value for i, part in state.items() for name, value in part.items()},
        "bank": world.bank.vectors().clone(),
        "ids": torch.from_numpy(world.bank.ids.copy()),
        "generator": torch.get_rng_state(),
        "gradients": torch.tensor([p.grad is not None for p in world.model.parameters()]),
        "training": torch.tensor([m.training for m in world.model.modules()]),
        "dropout": torch.tensor([float(getattr(m, "p", -1)) for m in world.model.modules()]),
    }


@pytest.mark.parametrize("towers", TOWERS)
def test_a_run_with_probes_ends_bitwise_like_one_without(data: Dataset, towers: str) -> None:
    plain, probed = World(data, **TOWERS[towers]), World(data, **TOWERS[towers])
    torch.manual_seed(3)
    plain.run(8)
    wanted = everything(plain)
    torch.manual_seed(3)
    probe, lines = probe_of(probed, every=3)
    for step in range(8):
        if probe.due(step):
            before = torch.get_rng_state()
            probe(step)
            assert torch.equal(torch.get_rng_state(), before)
        probed.step(step)
    found = everything(probed)
    assert len(lines) == 3
    assert found.keys() == wanted.keys()
    assert [name for name, value in wanted.items() if not torch.equal(value, found[name])] == []


@pytest.mark.usefixtures("standin")
def test_a_probe_that_fails_leaves_the_run_as_it_was(data: Dataset) -> None:
    world = World(data, query=DROPPING)
    world.run(2)
    before = everything(world)
    probe, _ = probe_of(world, fault="nan")
    with pytest.raises(NumericFailure):
        probe(2)
    after = everything(world)
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_the_micro_batch_is_the_first_of_the_run_with_a_whole_steps_candidates(
    data: Dataset,
) -> None:
    world = World(data, query=MLP, micro_batch=8)
    probe, _ = probe_of(world, every=1)
    head, micro = probe._sample()
    first = world.head(0)
    assert head.rows.tolist() == first.rows[:8].tolist()
    assert set(first.targets) <= set(head.doc_ids)
    assert micro.queries.x.shape == (8, 6)
    trainable = World(data, query=LINEAR, doc=MLP, micro_batch=8)
    probe, _ = probe_of(trainable, every=1)
    head, _ = probe._sample()
    assert head.rows.tolist() == first.rows[:8].tolist()
    assert len(head.doc_ids) <= 8 * (1 + trainable.mined)


def test_products_are_as_exact_afterwards_as_before(data: Dataset) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        probe, lines = probe_of(World(data, query=MLP), every=1)
        probe(0)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    # bf16 products where the processor has AMX, float32 ones elsewhere.
    assert lines[0]["tolerance"] in (0.05, 0.001)
    assert lines[0]["precision"] == FP32.name


def test_a_mapped_file_that_was_cut_is_met_before_it_is_read(tmp_path: Path) -> None:
    from ttf.errors import DataChanged

    with open_small(tmp_path) as opened:
        probe, _ = probe_of(World(opened), every=1)
        (pairs,) = tmp_path.glob("*pairs*")
        pairs.write_bytes(pairs.read_bytes()[:-100])
        with pytest.raises(DataChanged):
            probe(0)
