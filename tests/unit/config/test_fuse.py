"""`train.fuse`: how many micro-batches are computed at a time, and what it never changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_training import open_small

from ttf.config.fusing import fusing, fusing_of
from ttf.config.resolve import flat, load_run_toml, resolve
from ttf.config.toml import dump
from ttf.contracts import DevicePolicy
from ttf.data.dataset import Dataset
from ttf.incidents.remedies import remedies_for
from ttf.machine.devices import choose
from ttf.machine.memory.limits import Limit
from ttf.training.auto_settings import Decided, decide
from ttf.training.plan import plan_of
from ttf_devices.mps import MpsOptions, MpsPolicy

ROOMY = Limit(24 * 10**9, "physical memory")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("fuse")) as opened:
        yield opened


def decided(
    data: Dataset,
    policy: DevicePolicy | None = None,
    also: dict[str, Any] | None = None,
    **flags: Any,
) -> Decided:
    resolved = resolve(flags={"tower": "linear", "memory.budget": "1GiB", **flags, **(also or {})})
    return decide(resolved, data, policy or choose("cpu", {}, 1))


def test_the_cpu_computes_short_micro_batches_together(data: Dataset) -> None:
    found = decided(data, batch_size=4, accum=16)
    assert (found.plan.micro_batch, found.plan.accumulate) == (64, 1)
    assert found.plan.cut == "4 x 16, 16 at a time"
    assert found.config.train.batch_size == 4 and found.config.train.accumulate == 16
    assert found.resolved.origins["train.fuse"].startswith("auto: 64 samples")


def test_those_who_want_accumulation_learn_that_it_is_gone_and_how_to_have_it(
    data: Dataset,
) -> None:
    policy = choose("cpu", {}, 1)
    also: dict[str, Any] = {"miner.negatives": 0}
    merged = decided(data, also=also, batch_size=4, accum=16)
    whole = plan_of(merged, data, policy, ROOMY).choices.notes[-1]
    assert "16 micro-batches of 4 as one of 64, so nothing is accumulated" in whole
    assert whole.endswith("--set train.fuse=1")
    policy.rows_at_once = 24
    part = plan_of(decided(data, policy, also, batch_size=4, accum=16), data, policy, ROOMY)
    assert (
        "4 micro-batches of 4 as one of 16, so only 4 are accumulated" in part.choices.notes[-1]
        and part.choices.notes[-1] in part.text()
    )
    alone = decided(data, batch_size=4, accum=16, also={**also, "train.fuse": 1})
    told = plan_of(alone, data, policy, ROOMY).choices.notes
    assert not any("train.fuse" in note for note in told)


def test_a_bisect_says_the_same_from_the_settled_values(data: Dataset) -> None:
    merged = decided(data, batch_size=4, accum=16)
    assert fusing_of(flat(merged.config)) == fusing(merged.plan) != ""
    assert fusing_of(flat(resolve(flags={"accum": 16}).config)) == "", "nothing is settled"


def test_never_more_rows_than_the_device_likes(data: Dataset) -> None:
    policy = choose("cpu", {}, 1)
    policy.rows_at_once = 24
    found = decided(data, policy, batch_size=4, accum=16)
    assert (found.plan.micro_batch, found.plan.accumulate) == (16, 4)


def test_never_more_than_the_memory_budget_allows(data: Dataset) -> None:
    found = decided(data, batch_size=4, accum=16, also={"memory.budget": 1 << 12})
    assert found.plan.micro_batch * found.plan.accumulate == 64
    assert found.plan.micro_batch < 64


def test_a_number_that_does_not_divide_is_cut_to_one_that_does(data: Dataset) -> None:
    found = decided(data, batch_size=4, accum=16, also={"train.fuse": 5})
    assert (found.plan.micro_batch, found.plan.accumulate) == (16, 4)
    assert found.config.train.fuse == 4
    assert "up to 5" in found.resolved.origins["train.fuse"]


def test_a_device_with_little_memory_computes_them_as_they_are(data: Dataset) -> None:
    found = decided(data, MpsPolicy(MpsOptions(), 1), batch_size=4, accum=4)
    assert found.plan.fused == 1 and found.config.train.fuse == 1


def test_a_run_that_goes_on_keeps_it(tmp_path: Path, data: Dataset) -> None:
    path = tmp_path / "run.toml"
    path.write_text(dump(decided(data, batch_size=4, accum=16).resolved))
    resolved = load_run_toml(path)
    policy = choose("cpu", {}, 1)
    policy.rows_at_once = 8
    again = decide(resolved, data, policy)
    assert again.plan.micro_batch == 64


def test_where_memory_runs_short_it_is_the_first_thing_given_up() -> None:
    settings = {"train.batch_size": 32, "train.accumulate": 16, "train.fuse": 4}
    sets = [dict(r.set) for r in remedies_for("memory-limit", settings)]
    assert sets[0] == {"train.fuse": 1}
    assert sets[1] == {"train.batch_size": 16, "train.accumulate": 32, "train.fuse": 1}
