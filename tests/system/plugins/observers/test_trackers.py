"""Experiment trackers, read back with their own libraries: each step once, whatever happens."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.observed_runs import EVALUATED, STEPS, Place
from tests.kit.widely import wide

LIBRARIES = {"mlflow": "mlflow", "trackio": "trackio", "wandb": "wandb"}


def needs(name: str) -> Any:
    missing = importlib.util.find_spec(LIBRARIES[name]) is None
    reason = f'{name} is not installed: pip install "twotower[{name}]"'
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=reason))


TRACKERS = [needs(name) for name in LIBRARIES]

# Hooks as a run calls them: steps first..last, checkpoints every 20, then the end or a death.
_RUN = """
import json, os, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from importlib import import_module
from ttf import StepRecord, EvalRecord
name, run, first, last, how = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
sink = import_module(f"ttf_observers.{name}_sink").SINK
config = {"checkpoint": {"retry_s": 0.0}, "train": {"lr": 0.1, "name": "x"}}
(run / "checkpoints").mkdir(parents=True, exist_ok=True)
sink.ttf_run_started(run_dir=run, config=config, resumed_from=first - 1)
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if how == "before-sending":
    sink._tracker.send = die
if how == "after-sending":
    send = sink._tracker.send
    sink._tracker.send = lambda points: (send(points), die())
for step in range(first, last + 1):
    sink.ttf_step(record=StepRecord(step=step, epoch=0, loss=1 / step, lr=0.1, grad_norm=1.0,
                                    samples_per_s=9.0, seconds=0.1, extra={"data_s": 0.5}))
    if step % 20 == 0:
        (run / "checkpoints" / f"step-{step:08d}").mkdir()
        sink.ttf_checkpointed(step=step, path=run)
        sink.ttf_evaluated(record=EvalRecord(step=step, epoch=0, metrics={"recall@10": step / 100}, seconds=1.0))
if how != "finish":
    die()
sink.ttf_run_finished(run_dir=run, summary={"status": "finished", "exit_code": 0})
"""

_READ = {
    "mlflow": """
import sys, json, logging
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="sqlite:///" + sys.argv[1] + "/mlflow.db")
logging.disable()
(run,) = client.search_runs([client.get_experiment_by_name("ttf").experiment_id])
def curve(name):
    return sorted((p.step, p.value) for p in client.get_metric_history(run.info.run_id, name))
print(json.dumps({"loss": curve("train/loss"), "recall": curve("val/recall_at_10"),
                  "lr": run.data.params["train.lr"], "status": run.info.status}))
""",
    "trackio": """
import sys, json
from trackio.sqlite_storage import SQLiteStorage
(name,) = SQLiteStorage.get_runs("ttf")
logs = SQLiteStorage.get_logs("ttf", name)
config = SQLiteStorage.get_run_config("ttf", name)
print(json.dumps({"loss": [(l["step"], l["train/loss"]) for l in logs if "train/loss" in l],
                  "recall": [(l["step"], l["val/recall@10"]) for l in logs if "val/recall@10" in l],
                  "lr": config["train.lr"], "status": "FINISHED"}))
""",
    "wandb": """
import sys, json
from pathlib import Path
from ttf_observers._wandb_file import history
found = [one for path in sorted(Path(sys.argv[2]).glob("wandb/offline-run-*/*.wandb")) for one in history(path, Path(sys.argv[2]))]
def curve(name):
    return [(step, json.loads(values[name])) for step, values in found if name in values]
print(json.dumps({"loss": curve("train/loss"), "recall": curve("val/recall@10"), "lr": "0.1",
                  "status": "FINISHED"}))
""",
}


def python(code: str, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TRACKIO_DIR": str(folder / "trackio"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code, *argv]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def read(name: str, folder: Path, run: Path) -> dict[str, Any]:
    done = python(_READ[name], folder, str(folder), str(run))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "death",
    [
        "after-sending",
        pytest.param("between", marks=wide),
        pytest.param("before-sending", marks=wide),
    ],
)
@pytest.mark.parametrize("name", TRACKERS)
def test_a_run_that_was_killed_has_each_step_once(name: str, death: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = python(_RUN, tmp_path, name, str(run), "1", "27", death)
    assert first.returncode == -9, first.stderr
    again = python(_RUN, tmp_path, name, str(run), "21", "45", "finish")
    assert again.returncode == 0, again.stderr
    found = read(name, tmp_path, run)
    assert [step for step, _ in found["loss"]] == list(range(1, 46))
    assert all(abs(value - 1 / step) < 1e-6 for step, value in found["loss"])
    evaluated = [(20, 0.2), (40, 0.4)] if death == "between" else [(40, 0.4)]
    assert [tuple(point) for point in found["recall"]] == evaluated
    assert (found["lr"], found["status"]) == ("0.1", "FINISHED")


@wide
@pytest.mark.parametrize("name", TRACKERS)
def test_a_real_run_arrives_whole(name: str, place: Place, tmp_path: Path) -> None:
    before = dict(os.environ)
    os.environ["TRACKIO_DIR"] = str(tmp_path / "trackio")
    try:
        place.train([name], out=tmp_path / "run")
    finally:
        os.environ.clear()
        os.environ.update(before)
    found = read(name, tmp_path, tmp_path / "run")
    assert [step for step, _ in found["loss"]] == list(range(1, STEPS + 1))
    assert [step for step, _ in found["recall"]] == EVALUATED


@pytest.mark.parametrize("name", LIBRARIES)
def test_without_its_library_the_observer_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttf.host.plugins import observer

    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(Exception, match="library is not installed") as refused:
        observer(name)
    assert getattr(refused.value, "hint", "") == f'pip install "twotower[{name}]"'
