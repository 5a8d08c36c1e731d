"""One optimizer step: the same numbers however it is cut, and no weight moved by a bad one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit import small_training as world
from tests.kit.small_training import (
    BANK,
    IDENTITY,
    LINEAR,
    MLP,
    QUERIES,
    SAMPLES,
    World,
    open_small,
)
from torch import Tensor

from ttf.data.dataset import Dataset
from ttf.errors import BadData, NumericFailure
from ttf.training.optimizer import make_optimizer
from ttf.training.schedule import learning_rate, temperature
from ttf.training.step import Stepper

STEPS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def trained(data: Dataset, **settings: Any) -> tuple[list[float], dict[str, Tensor]]:
    """Losses, gradient norms (Adam hides a factor in them) and weights after a few steps."""
    made = World(data, **settings)
    told = [number for r in made.run(STEPS) for number in (r.loss, r.grad_norm)]
    return told, made.weights() | {"bank": made.bank.vectors().clone()}


def assert_close(
    first: tuple[list[float], dict[str, Tensor]], second: tuple[list[float], dict[str, Tensor]]
) -> None:
    assert first[0] == pytest.approx(second[0], rel=1e-5, abs=1e-5)
    for name, value in first[1].items():
        assert torch.allclose(value, second[1][name], atol=1e-5), name


TOWERS = {
    "fixed documents": {"query": MLP, "doc": IDENTITY},
    "trainable documents": {"query": LINEAR, "doc": MLP},
}


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("grad_cache", [False, True], ids=["plain", "cached"])
@pytest.mark.parametrize("memory_bank", [0, 20], ids=["no bank", "bank"])
@pytest.mark.parametrize("micro_batch", [16, 4])
def test_how_a_step_is_cut_changes_its_numbers_by_rounding_only(
    data: Dataset, towers: str, grad_cache: bool, memory_bank: int, micro_batch: int
) -> None:
    settings = TOWERS[towers] | {"memory_bank": memory_bank}
    whole = trained(data, **settings)
    cut = trained(data, **settings, grad_cache=grad_cache, micro_batch=micro_batch)
    assert_close(whole, cut)


@pytest.mark.parametrize("grad_cache", [False, True], ids=["plain", "cached"])
def test_so_it_is_when_each_sample_is_a_micro_batch(data: Dataset, grad_cache: bool) -> None:
    settings = TOWERS["trainable documents"]
    assert_close(
        trained(data, **settings),
        trained(data, **settings, grad_cache=grad_cache, micro_batch=1),
    )


@pytest.mark.parametrize("towers", TOWERS)
def test_a_learned_temperature_moves_the_same_way_however_the_step_is_cut(
    data: Dataset, towers: str
) -> None:
    settings = TOWERS[towers] | {"loss": {"learn_temperature": True}}
    whole = trained(data, **settings)
    assert whole[1]["temperature.log_scale"] != torch.tensor(20.0).log()
    assert_close(whole, trained(data, **settings, micro_batch=8))
    assert_close(whole, trained(data, **settings, micro_batch=8, grad_cache=True))


@pytest.mark.parametrize("towers", TOWERS)
def test_the_symmetric_loss_in_chunks_is_that_of_one_batch(data: Dataset, towers: str) -> None:
    settings = TOWERS[towers] | {"loss": {"symmetric": True}}
    whole = trained(data, **settings)
    assert whole[0] != pytest.approx(trained(data, **TOWERS[towers])[0])
    assert_close(whole, trained(data, **settings, micro_batch=8, grad_cache=True))


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("grad_cache", [False, True], ids=["plain", "cached"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(
    data: Dataset, towers: str, grad_cache: bool
) -> None:
    settings: dict[str, Any] = {name: tower | {} for name, tower in TOWERS[towers].items()}
    for tower in settings.values():
        if tower["name"] == "mlp":
            tower["dropout"] = 0.3
    settings |= {"grad_cache": grad_cache, "micro_batch": 8}
    first, second = trained(data, **settings), trained(data, **settings)
    torch.manual_seed(5)
    third = trained(data, **settings, seed=1)
    assert first[0] == second[0]
    assert all(torch.equal(value, second[1][name]) for name, value in first[1].items())
    assert first[0] != third[0]


def test_dropout_of_a_step_does_not_depend_on_what_ran_before_it(data: Dataset) -> None:
    tower = MLP | {"dropout": 0.5}
    one, other = World(data, query=tower), World(data, query=tower)
    torch.rand(1000)
    assert one.step(0).loss == other.step(0).loss


def reference_loss(made: World, step: int) -> float:
    """The definition, query by query, with nothing shared with the code under test."""
    head = made.head(step)
    model = made.model.eval()
    with torch.no_grad():
        docs = model.encode_documents(torch.from_numpy(BANK[head.doc_ids]))
        q = model.encode_queries(torch.from_numpy(QUERIES[made.data.train.keep[head.rows]]))
    offered = {int(made.bank.ids[i]): made.bank.vectors()[i] for i in range(made.bank.filled)}
    offered |= dict(zip(head.doc_ids.tolist(), docs, strict=True))
    losses = []
    for row in range(SAMPLES):
        target = int(head.targets[row])
        masked = set(head.known[row].tolist()) - {target}
        logits = {i: float(q[row] @ v) / 0.05 for i, v in offered.items() if i not in masked}
        top = max(logits.values())
        total = sum(np.exp(value - top) for value in logits.values())
        losses.append(top + np.log(total) - logits[target])
    return float(np.mean(losses))


@pytest.mark.parametrize("towers", TOWERS)
def test_the_loss_of_a_step_is_that_of_its_definition(data: Dataset, towers: str) -> None:
    made = World(data, **TOWERS[towers], micro_batch=8)  # type: ignore[arg-type]
    for step in range(4):
        wanted = reference_loss(made, step)
        assert made.step(step).loss == pytest.approx(wanted, abs=1e-5)


def test_the_memory_bank_joins_at_its_step_and_holds_targets_only(data: Dataset) -> None:
    without = World(data, memory_bank=0).run(3)
    late = World(data, loss={"memory_bank_start": 2})
    results = late.run(3)
    assert [r.loss for r in results[:2]] == [r.loss for r in without[:2]]
    assert results[2].loss > without[2].loss
    targets = {int(i) for step in range(3) for i in late.head(step).targets}
    assert set(late.bank.ids[: late.bank.filled].tolist()) <= targets


def test_training_lowers_the_loss(data: Dataset) -> None:
    losses = [result.loss for result in World(data, query=MLP).run(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5


def test_gradients_are_clipped_and_the_true_norm_is_told(data: Dataset) -> None:
    made = World(data)
    norm = made.step(0).grad_norm
    assert norm > 1, "the test needs a gradient that is clipped"
    moved = made.optimizer.state_dict()["state"][0]["exp_avg"] / 0.1
    assert float(moved.norm()) == pytest.approx(1, rel=1e-3)


# --- what must not happen ------------------------------------------------------------------


def refused(made: World, error: type[Exception], *says: str, step: int = 0) -> None:
    before, bank = made.weights(), made.bank.ids.copy()
    with pytest.raises(error) as caught:
        made.step(step)
    for part in says:
        assert part in str(caught.value)
    after = made.weights()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert (made.bank.ids == bank).all()
    assert all(p.grad is None for p in made.model.parameters())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cut", [{}, {"micro_batch": 8}, {"grad_cache": True}])
def test_a_query_that_is_not_finite_is_bad_data_by_name(
    tmp_path: Path, value: float, cut: dict[str, Any]
) -> None:
    with open_small(tmp_path) as good:
        row = int(World(good).head(0).rows[5])
    queries = QUERIES.copy()
    queries[row, 2] = value
    with open_small(tmp_path, queries=queries) as data:
        refused(World(data, **cut), BadData, f"X_train[{row}]", "pairs.npz", "not finite")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("towers", TOWERS)
def test_a_document_that_is_not_finite_is_bad_data_by_name(
    tmp_path: Path, value: float, towers: str
) -> None:
    with open_small(tmp_path) as good:
        row = int(World(good).head(0).targets[3])
    bank = BANK.copy()
    bank[row, 0] = value
    with open_small(tmp_path, bank=bank) as data:
        made = World(data, **TOWERS[towers])  # type: ignore[arg-type]
        refused(made, BadData, f"vectors[{row}]", "bank.npz", "not finite")


def infinite_weight(made: World) -> None:
    with torch.no_grad():
        next(made.model.query.parameters())[0, 0] = torch.inf


def exploded(made: World) -> None:
    """A first step at an absurd rate, after which nothing is finite any more."""
    made.step(1, lr=1e38)
    made.step(2, lr=1e38)


@pytest.mark.parametrize("spoil", [infinite_weight, exploded], ids=["infinite", "exploded"])
@pytest.mark.parametrize("grad_cache", [False, True], ids=["plain", "cached"])
def test_towers_that_blow_up_are_a_numeric_failure_that_names_rows(
    data: Dataset, spoil: Callable[[World], None], grad_cache: bool
) -> None:
    made = World(data, query=MLP, loss={"similarity": "dot"}, grad_cache=grad_cache)
    try:
        spoil(made)
    except NumericFailure as error:
        assert "Training rows of this batch" in str(error)
        return
    row = int(data.train.keep[made.head(0).rows[0]])
    refused(made, NumericFailure, "step 1", "Training rows", str(row))


def test_only_the_rows_whose_loss_broke_are_named(tmp_path: Path) -> None:
    with open_small(tmp_path) as good:
        rows = World(good).head(0).rows[[4, 9]].tolist()
    queries = QUERIES.copy()
    queries[rows] = 3e38  # finite, but not after the product with anything
    with open_small(tmp_path, queries=queries) as data:
        made = World(data, loss={"similarity": "dot"})
        refused(made, NumericFailure, f"batch: {rows[0]}, {rows[1]}.")


# --- the schedule and the optimizer --------------------------------------------------------


def rates(schedule: str, warmup: float, total: int = 20) -> list[float]:
    return [learning_rate(step, total, 2.0, schedule, warmup) for step in range(total)]


def test_the_rate_warms_up_in_a_line_and_reaches_its_peak() -> None:
    for schedule in ("cosine", "linear", "constant"):
        assert rates(schedule, 0.2)[:5] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])


def test_after_the_warm_up_it_follows_its_schedule() -> None:
    assert rates("constant", 0.0) == [2.0] * 20
    assert rates("linear", 0.0) == pytest.approx([2 * (1 - i / 20) for i in range(20)])
    wanted = [1 + np.cos(np.pi * i / 20) for i in range(20)]
    assert rates("cosine", 0.0) == pytest.approx(wanted)
    assert rates("cosine", 0.05)[10] == pytest.approx(1 + np.cos(np.pi * 9 / 19))


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.99])
@pytest.mark.parametrize("total", [1, 2, 7, 100])
def test_every_step_has_a_rate_above_zero(schedule: str, warmup: float, total: int) -> None:
    found = rates(schedule, warmup, total)
    assert all(0 < rate <= 2.0 for rate in found)


def test_matrices_decay_and_nothing_else_does(data: Dataset) -> None:
    made = World(data, query=MLP | {"norm": True}, loss={"learn_temperature": True})
    decayed, kept = make_optimizer(made.model, 1e-3, 0.1).param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() >= 2 for p in decayed["params"])
    assert all(p.dim() < 2 for p in kept["params"])
    count = len(decayed["params"]) + len(kept["params"])
    assert count == len(list(made.model.parameters()))


def test_the_small_world_has_what_the_tests_above_need(data: Dataset) -> None:
    head = World(data).head(0)
    assert head.num_mined > 0
    assert (head.known[:, 1] >= 0).any(), "some queries have two positives"
    assert len(set(head.targets.tolist())) < SAMPLES, "and some share their target"
    assert world.PAIRS > SAMPLES


def test_the_temperature_falls_by_the_same_factor_from_1_4_to_0_8_times() -> None:
    falling = [temperature(step, 20, 0.06, "falling") for step in range(20)]
    assert (falling[0], falling[-1]) == pytest.approx((0.084, 0.048))
    factors = [later / earlier for earlier, later in itertools.pairwise(falling)]
    assert factors == pytest.approx(factors[:1] * 19)
    assert {temperature(step, 20, 0.06, "constant") for step in range(20)} == {0.06}
    assert temperature(0, 1, 0.06, "falling") == 0.06


def test_each_step_has_its_own_temperature_wherever_the_training_begins(data: Dataset) -> None:
    temperatures = [0.08, 0.06, 0.045]
    asked: list[int] = []

    def at(step: int) -> float:
        asked.append(step)
        return temperatures[step]

    made = World(data)
    made.stepper = Stepper(made.stepper.gradients, made.optimizer, data, temperature=at)
    # A run that goes on begins at any step.
    for step in (2, 0):
        made.step(step)
        assert made.model.temperature.temperature() == pytest.approx(temperatures[step])
    assert asked == [2, 0]
