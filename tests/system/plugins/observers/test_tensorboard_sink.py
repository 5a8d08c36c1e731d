"""Event files that the real TensorBoard reads: nothing twice, nothing missing, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.kit.observed_runs import (
    EVALUATED,
    STEPS,
    WAITS,
    Place,
    lines,
    read,
    steps,
    texts,
)
from tests.kit.widely import wide
from tests.unit.plugins.observers.test_tensorboard_sink import files

pytestmark = pytest.mark.usefixtures("_needs_tensorboard", "_closed_after")


@wide
def test_a_folder_that_was_deleted_begins_again_where_the_run_is_resumed(place: Place) -> None:
    run = place.root / "given-up"
    words = place.words(["tensorboard", "jsonl", WAITS], "--set=supervise.max_restarts=0")
    code, err = place.ttf(*words, "--out", str(run), failpoint="tensorboard.write:90:kill")
    assert code == 5, err
    shutil.rmtree(run / "tensorboard")
    code, err = place.ttf("resume", str(run))
    assert code == 0, err
    resumed_from = lines(run, "run_started")[-1]["resumed_from"]
    assert resumed_from > 0
    found = read(run / "tensorboard")
    assert steps(found, "train/loss") == list(range(resumed_from + 1, STEPS + 1))
    assert [at for at, _ in texts(found, "config")] == [resumed_from]
    assert [line["step"] for line in lines(run, "step")] == list(range(1, STEPS + 1))
    before = [path.read_bytes() for path in files(run)]
    assert place.ttf("resume", str(run))[0] == 0
    assert [path.read_bytes() for path in files(run)] == before, "a finished run is only shown"


def test_a_full_disk_of_its_own_leaves_it_out_aloud_and_the_run_goes_on(
    place: Place, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "run" / "tensorboard"
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        err = place.train(["tensorboard"], "--set=checkpoint.retry_s=0", out=folder.parent)
        assert err.count("ttf does not call it again in this run") == 1, err
        assert "failed in ttf_step (StorageError: Could not write" in err
        assert "No space left on device" in err
        done_steps = steps(read(folder), "train/loss")
        assert done_steps == list(range(1, len(done_steps) + 1)) and len(done_steps) > 10
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_run_is_read_back_as_curves_and_texts(undisturbed: Path) -> None:
    found = read(undisturbed / "tensorboard")
    tags = set(found.Tags()["scalars"])
    assert {"train/loss", "train/lr", "train/grad_norm", "perf/samples_per_s"} <= tags
    assert {"train/mined", "perf/data_s", "perf/compute_s", "perf/evaluation_s"} <= tags
    for tag in ("train/loss", "perf/samples_per_s"):
        assert steps(found, tag) == list(range(1, STEPS + 1))
    summary = json.loads((undisturbed / "summary.json").read_text())
    for name, value in summary["metrics_initial"].items():
        assert steps(found, f"val/{name}") == EVALUATED
        assert found.Scalars(f"val/{name}")[0].value == pytest.approx(value)
    ((at, config),) = texts(found, "config")
    assert at == 0 and '"checkpoint"' in config
    ((at, ending),) = texts(found, "summary")
    assert at == STEPS and summary["weights_sha256"] in ending


def test_a_killed_run_has_each_step_once(killed: Path) -> None:
    first, second = files(killed)
    assert len(steps(read(first), "train/loss")) == 116, "the event it died with is not whole"
    found = read(killed / "tensorboard")
    for tag in ("train/loss", "perf/step_s"):
        assert steps(found, tag) == list(range(1, STEPS + 1))
    assert steps(found, "val/recall@10") == EVALUATED
    resumed_from = lines(killed, "run_started")[-1]["resumed_from"]
    assert steps(read(second), "train/loss")[0] == resumed_from + 1
    assert [at for at, _ in texts(found, "config")] == [0, resumed_from]
    ((at, incident),) = texts(found, "incident")
    assert at == resumed_from
    assert "**killed** (trainer, step 11" in incident and "- 001 killed (trainer)" in incident
