"""Remedies are the topmost layer, stay in run.toml with their origin, and keep a run's steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_training import open_small
from tests.unit.config.test_layers import write

from ttf.config.resolve import Resolved, flat, load_run_toml, resolve
from ttf.config.schema import RunConfig
from ttf.config.toml import dump
from ttf.contracts import DevicePolicy
from ttf.data.dataset import Dataset
from ttf.errors import ConfigError, DeviceMistrusted
from ttf.machine.devices import choose
from ttf.rundir.request import Change
from ttf.training.auto_settings import Decided, decide
from ttf_devices.mps import MpsOptions, MpsPolicy

ORIGIN = "remedy of incident 002 (omp-duplicate)"
LATER = "remedy of incident 003 (oom-kill)"
ISOLATED = {"miner.isolation": Change(value="process", origin=ORIGIN)}


def test_a_remedy_wins_over_everything_with_its_own_origin(tmp_path: Path) -> None:
    file = write(tmp_path, "[miner]\nisolation = 'none'\n")
    overlay = {
        "miner.isolation": Change(value="process", origin=ORIGIN),
        "train.steps": Change(value=None, origin=LATER),
        "miner.fallback": Change(value=["hnswlib", "exact"], origin=LATER),
    }
    resolved = resolve(file, ["miner.isolation=none"], {"--isolation": "none"}, overlay=overlay)
    assert resolved.config.miner.isolation == "process"
    assert resolved.config.miner.fallback == ("hnswlib", "exact")
    assert resolved.origins["miner.isolation"] == ORIGIN
    assert resolved.origins["miner.fallback"] == LATER
    assert resolved.config.train.steps is None


def test_it_wins_over_safe_as_well() -> None:
    overlay = {"train.accumulate": Change(value=8, origin=LATER)}
    assert resolve(safe=True, overlay=overlay).config.train.accumulate == 8


def test_a_remedy_is_validated_like_everything_else() -> None:
    overlay = {
        "miner.isolation": Change(value="jail", origin=ORIGIN),
        "train.acumulate": Change(value=2, origin=LATER),
        "tower.query.name": Change(value="gruu", origin=LATER),
    }
    with pytest.raises(ConfigError) as caught:
        resolve(overlay=overlay)
    found = "\n".join(caught.value.problems)
    assert f"{ORIGIN}: miner.isolation: " in found
    assert f"{LATER}: train.acumulate: no such key. Did you mean 'accumulate'?" in found
    assert "Did you mean 'gru'?" in found


def test_run_toml_keeps_the_origin_of_each_remedy_through_any_number_of_resumes(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, dump(resolve(flags={"--seed": 5, "--isolation": "none"})))
    once = load_run_toml(path, overlay=ISOLATED)
    assert once.config.miner.isolation == "process"
    assert (once.origins["miner.isolation"], once.origins["train.seed"]) == (ORIGIN, "--seed")
    write(tmp_path, dump(once))
    assert 'isolation = "process"' in path.read_text()
    again = load_run_toml(path)
    assert (again.config, again.origins) == (once.config, once.origins)
    more = load_run_toml(path, overlay={"miner.name": Change(value="exact", origin=LATER)})
    assert (more.origins["miner.isolation"], more.origins["miner.name"]) == (ORIGIN, LATER)
    assert more.origins["train.seed"] == "--seed"


def test_a_remedy_that_says_what_stands_there_already_is_still_named(tmp_path: Path) -> None:
    path = write(tmp_path, dump(resolve(flags={"--isolation": "process"})))
    assert load_run_toml(path, overlay=ISOLATED).origins["miner.isolation"] == ORIGIN


def test_no_remedies_is_a_flag_that_means_false() -> None:
    resolved = resolve(flags={"--no-remedies": True})
    assert resolved.config.supervise.remedies is False
    assert resolved.origins["supervise.remedies"] == "--no-remedies"
    assert resolve(flags={"no_remedies": True}).config.supervise.remedies is False
    silent = resolve(flags={"--no-remedies": False})
    assert (silent.config.supervise.remedies, silent.origins["supervise.remedies"]) == (
        True,
        "default",
    )


def test_flat_has_every_value_by_dotted_key_as_json(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "[tower.query]\nname = 'gru'\nhidden = 64\n[miner.hnswlib]\nM = 8\n"
        "[[gates]]\nat = 'epoch 1'\nneed = 'recall@1 > 0'\n",
    )
    resolved = resolve(file)
    found = flat(resolved.config)
    assert json.loads(json.dumps(found)) == found
    assert found.keys() == resolved.origins.keys()
    assert found["miner.isolation"] == "process"
    assert found["miner.fallback"] == ["exact"]
    assert found["tower.query.hidden"] == 64
    assert found["miner.hnswlib.M"] == 8
    assert found["train.steps"] is None
    assert found["gates"] == [{"at": "epoch 1", "need": "recall@1 > 0"}]


def test_what_is_flat_can_be_said_again() -> None:
    config = RunConfig()
    overlay = {k: Change(value=v, origin=LATER) for k, v in flat(config).items()}
    assert resolve(overlay=overlay).config == config


def test_the_cpu_as_a_remedy_is_an_overlay() -> None:
    remedy = DeviceMistrusted("it is wrong", remedy={"device.name": "cpu"}).remedy
    overlay = {k: Change(value=v, origin="remedy") for k, v in remedy.items()}
    assert resolve(overlay=overlay).config.device.name == "cpu"


# --- the samples of a step -------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("remedies")) as opened:
        yield opened


def decided(resolved: Resolved, data: Dataset, policy: DevicePolicy | None = None) -> Decided:
    return decide(resolved, data, policy or choose("cpu", {}, 1))


def started(folder: Path, data: Dataset, policy: DevicePolicy | None = None, **flags: Any) -> Path:
    """The run.toml of a run that began with these flags."""
    resolved = resolve(flags={"tower": "linear", "memory.budget": "1GiB", **flags})
    return write(folder, dump(decided(resolved, data, policy).resolved))


def cut(batch: int, accumulate: int) -> dict[str, Change]:
    return {
        "train.batch_size": Change(value=batch, origin=LATER),
        "train.accumulate": Change(value=accumulate, origin=LATER),
        "train.fuse": Change(value=1, origin=LATER),  # the remedy before any cut
    }


def test_a_run_that_goes_on_may_cut_its_steps(tmp_path: Path, data: Dataset) -> None:
    path = started(tmp_path, data, batch_size=32, accum=2)
    resolved = load_run_toml(path, overlay=cut(8, 8))
    assert resolved.samples_per_step == 64
    result = decided(resolved, data)
    assert (result.plan.micro_batch, result.plan.accumulate) == (8, 8)
    assert result.resolved.origins["train.batch_size"] == LATER
    write(tmp_path, dump(result.resolved))
    assert load_run_toml(path).samples_per_step == 64


@pytest.mark.parametrize(("batch", "accumulate"), [(16, 2), (8, 4), (64, 2), (33, 2)])
def test_but_never_change_how_many_samples_a_step_takes(
    tmp_path: Path, data: Dataset, batch: int, accumulate: int
) -> None:
    path = started(tmp_path, data, batch_size=32, accum=2)
    resolved = load_run_toml(path, overlay=cut(batch, accumulate))
    with pytest.raises(ConfigError, match="of this run has 64 samples") as caught:
        decided(resolved, data)
    assert f"would have {batch * accumulate} (" in str(caught.value)
    assert LATER in str(caught.value)


def test_a_new_run_takes_any_step(tmp_path: Path, data: Dataset) -> None:
    started(tmp_path, data, batch_size=32, accum=2)
    resolved = resolve(tmp_path / "run.toml", overlay=cut(16, 2))
    assert decided(resolved, data).plan.samples == 32


def test_what_a_device_cuts_is_written_down_so_that_another_takes_the_same_steps(
    tmp_path: Path, data: Dataset
) -> None:
    policy = MpsPolicy(MpsOptions(), 1)
    path = started(tmp_path, data, policy, batch_size=4, accum=16)
    resolved = load_run_toml(path, overlay={"device.name": Change(value="cpu", origin=LATER)})
    assert resolved.config.train.accumulate == 4
    assert resolved.origins["train.accumulate"] == "16 (accum=), limited by mps"
    assert decided(resolved, data).plan.samples == 16


def test_a_device_that_would_cut_the_steps_of_a_run_that_goes_on_is_refused(
    tmp_path: Path, data: Dataset
) -> None:
    path = started(tmp_path, data, batch_size=32, accum=2)
    resolved = load_run_toml(path, overlay=cut(8, 8))
    with pytest.raises(ConfigError, match="8 x 4 on the device mps"):
        decided(resolved, data, MpsPolicy(MpsOptions(), 1))
