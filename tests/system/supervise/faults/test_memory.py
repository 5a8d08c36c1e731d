"""Real limits around `ttf train`: named, answered with smaller micro-batches, before the kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.fixtures.faults import MB
from tests.kit.live_run import Ended
from tests.kit.memory_group import Group
from tests.kit.widely import wide

LARGE = {
    "train.batch_size": 4096,
    "train.accumulate": 1,
    "train.steps": 2,
    "loss.memory_bank": 0,
    "tower.query.dropout": 0,
}
"""A step that needs 640 MB at once, and 430 MB in two halves."""


@pytest.fixture(scope="session")
def long_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from ttf.data.synth import SynthShape, write_synth

    folder = tmp_path_factory.mktemp("long-data")
    paths = write_synth(
        folder, SynthShape(pairs=4096, val=60, seq_len=100, dim=16, bank=400, seed=3)
    )
    return {"pairs": paths["pairs"], "bank": paths["bank"]}


def weights(run: Ended) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return load_file(run.run / "model" / "model.safetensors")


def assert_cut(done: Ended, reference: Ended) -> None:
    """The same steps in smaller parts: the same numbers but for rounding, and that is said."""
    train, last = done.config()["train"], done.incidents[-1]
    assert train["batch_size"] in (2048, 1024)  # how much else the machine holds varies
    assert train["batch_size"] * train["accumulate"] == 4096
    assert done.origin("train.batch_size") == f"remedy of incident {last['id']} ({last['class']})"
    remedy = f"train.batch_size={train['batch_size']}, train.accumulate={train['accumulate']}"
    assert done.summary["incidents"][-1]["remedy"] == f"{remedy}, train.fuse=1"
    assert done.summary["samples"] == reference.summary["samples"]
    assert not done.summary["exact"]
    assert done.summary["deviations"] == [
        "the same optimizer step in smaller micro-batches: the results differ by rounding only"
    ]
    ours, theirs = weights(done), weights(reference)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        np.testing.assert_allclose(value, theirs[key], rtol=1e-3, atol=1e-5, err_msg=key)


@wide
def test_a_batch_that_does_not_fit_a_cgroup_is_cut_into_smaller_ones(
    place: FaultyPlace, group: Group, long_data: dict[str, Path]
) -> None:
    place.data = long_data
    reference = place.train(out="reference", settings=LARGE).wait()
    group.limit(540)
    done = place.train(settings=LARGE, before=group.enter).wait()
    done.assert_clean()
    assert done.code == 0
    counter = f"{group.folder.name} (memory.oom_control): the counter of OOM kills"
    killed = [found["class"] for found in done.incidents].count("oom-kill")
    assert killed == group.kills()
    for incident in done.incidents:
        told = "\n".join(f"{e['source']}: {e['text']}" for e in incident["evidence"])
        rose = "increased by 1" if incident["class"] == "oom-kill" else "did not increase"
        assert incident["class"] in ("oom-kill", "memory-limit") and f"{counter} {rose}" in told
    assert_cut(done, reference)


@wide
def test_memory_that_grows_is_said_given_back_and_left_before_the_kill(
    place: FaultyPlace, group: Group
) -> None:
    (place.faults / "leak").write_text("20")  # less than lies between leaving and the last moment
    group.limit(700)
    settings = {
        "miner.name": "faulty",
        "miner.negatives": 2,
        "miner.refresh": 40,
        "miner.faulty.holds_mb": 150,
        "checkpoint.every_steps": 1000,
    }
    command = place.train(settings=settings, before=group.enter)
    command.said("ttf freed caches and ended the idle miner process")
    (place.faults / "pause").touch()
    command.until(lambda: group.stat("total_rss") < (0.9 * 700 - 60) * MB, "150 MB are back")
    (place.faults / "pause").unlink()
    command.said("ttf restarts the run from")
    (place.faults / "leak").unlink()
    done = command.wait()
    done.assert_clean()
    assert done.code == 0
    assert group.kills() == 0
    (incident,) = done.incidents
    assert (incident["class"], incident["process"]) == ("memory-limit", "trainer")
    assert incident["lost_steps"] == 0
    assert incident["step"] > 0
    said = [
        done.err.index("At 90%, ttf frees its caches"),
        done.err.index("ttf freed caches and ended the idle miner process"),
        done.err.index("ttf restarts the run from"),
        done.err.index(f"resumed at step {incident['step']}"),
    ]
    assert said == sorted(said)


@wide  # the gauge is shown on a real group in tests/system/machine/test_memory_pressure.py
def test_the_page_cache_of_a_bank_larger_than_the_limit_is_no_pressure(
    place: FaultyPlace, group: Group
) -> None:
    place.data = wide_data(place.root)
    group.limit(400)
    settings = {"train.steps": 10, "memory.budget": "32MiB"}
    done = place.train(settings=settings, before=group.enter).wait()
    done.assert_clean()
    used = int((group.folder / "memory.max_usage_in_bytes").read_text())
    if used < 360 * MB:
        pytest.skip("the page cache of this file system is not charged to who reads it")
    assert done.code == 0
    assert group.kills() == 0
    assert "Memory is" not in done.err
    assert done.summary["exact"] and done.summary["incidents"] == []


def wide_data(folder: Path) -> dict[str, Path]:
    """A bank of 460 MB that is in nobody's page cache."""
    rng = np.random.default_rng(0)
    block = rng.standard_normal((15_000, 768), np.float32)
    paths = {"pairs": folder / "pairs.npz", "bank": folder / "bank.npz"}
    np.savez(
        paths["pairs"],
        X_train=block[:600, None].repeat(2, 1),
        X_val=block[600:660, None].repeat(2, 1),
        pos_train=np.arange(600),
        pos_val=np.arange(600, 660),
    )
    np.savez(paths["bank"], vectors=np.concatenate([block, *(block + i for i in range(9))]))
    for path in paths.values():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return paths


@wide  # a worker alone: tests/system/mining/test_isolation_system.py
def test_the_miner_is_the_first_victim(
    place: FaultyPlace, group: Group, mined_reference: Ended
) -> None:
    group.limit(600)
    done = place.train(
        settings={**MINED, "miner.faulty.acts": ["allocate"]}, before=group.enter
    ).wait()
    done.assert_clean()
    assert done.code == 0
    told = [(found["class"], found["process"], found["exit_code"]) for found in done.incidents]
    assert told.count(("oom-kill", "miner", None)) == group.kills()
    if told == [("oom-kill", "miner", None)]:
        assert "increased by 1" in done.evidence
        assert done.summary["restarts"] == 0
        assert done.digest == mined_reference.digest and done.summary["exact"]
    else:  # it took long enough to be noticed: the trainer left by itself, and nobody killed it
        assert told[-1] == ("memory-limit", "trainer", 0)
        assert "memory.budget" in done.summary["incidents"][-1]["remedy"]
