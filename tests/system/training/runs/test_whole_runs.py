"""Whole runs through the command line: same bits twice, stop and go on, the folder, the verbs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FakeDistribution, Invoke, RunTtf, wait_until
from tests.kit.widely import CHAOS

import ttf

Sets = Mapping[str, Mapping[str, str]]


def words(files: Mapping[str, str], *more: str) -> list[str]:
    return [
        "--pairs",
        files["pairs"],
        "--bank",
        files["bank"],
        *("--set", "tower.query.hidden=16", "--set", "negatives.min_yield=0"),
        *("--batch-size", "16", "--accum", "2", "--threads", "1"),
        *more,
    ]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.skipif(not CHAOS, reason="as a stopped run that goes on: TTF_CHAOS=1 runs it")
def test_two_runs_in_processes_of_their_own_end_with_the_same_bits(
    small_sets: Sets, tmp_path: Path, run_ttf: RunTtf
) -> None:
    digests = []
    for name in ("one", "two"):
        argv = words(small_sets["npz"], "--steps", "20", "--out", name)
        done = run_ttf("train", *argv, "--json", env={"TTF_HOME": str(tmp_path / name)})
        assert done.code == 0, done.err
        digests.append(done.json()["weights_sha256"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("miner", ["hnswlib", "faiss"])
def test_two_runs_with_one_seed_end_with_the_same_bits(
    miner: str, small_sets: Sets, tmp_path: Path
) -> None:
    first, second, other = (
        train(small_sets, tmp_path / name, miner=miner, seed=seed)
        for name, seed in (("one", 0), ("two", 0), ("other", 1))
    )
    assert first.summary["miner"] == miner
    assert first.summary["weights_sha256"] == second.summary["weights_sha256"]
    assert first.summary["weights_sha256"] != other.summary["weights_sha256"]


def train(sets: Sets, out: Path, *, miner: str = "exact", **train: Any) -> ttf.Run:
    """In this process."""
    config = {
        "data": dict(sets["npz"]),
        "tower": {"query": {"name": "gru", "hidden": 16}},
        "negatives": {"min_yield": 0.0},
        "miner": {"name": miner, "isolation": "none"},
        "train": {"steps": 20, "batch_size": 16, "accumulate": 2, **train},
        "device": {"name": "cpu", "threads": 1},
    }
    return ttf.train(config, out=out, supervised=False)


def test_a_stopped_run_goes_on_to_the_same_bits(
    small_sets: Sets,
    tmp_path: Path,
    run_ttf: RunTtf,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With two towers that train; tests/system/supervise stops and kills in every phase."""
    monkeypatch.chdir(tmp_path)
    stop = signal.SIGTERM
    more = ["--tower", "gru", "--doc-tower", "mlp"]
    more += ["--steps", "60", "--set", "miner.refresh=7", "--isolation", "none"]
    more += ["--set", "evaluate.patience=0"]
    argv = words(small_sets["npz"], *more)
    whole = invoke(["train", *argv, "--out", "whole", "--in-process"])
    assert whole.code == 0, whole.err
    code = stopped_after(10, stop, [*argv, "--out", "cut", "--in-process"], tmp_path)
    assert code == 128 + stop
    cut = summary(tmp_path / "cut")
    assert (cut["status"], cut["exit_code"]) == ("stopped", 128 + stop)
    assert 10 <= cut["steps"] < 60
    assert invoke(["resume", "cut", "--in-process"]).code == 0
    assert (
        summary(tmp_path / "cut")["weights_sha256"] == summary(tmp_path / "whole")["weights_sha256"]
    )
    assert summary(tmp_path / "cut")["exact"]
    steps = [line["step"] for line in metrics(tmp_path / "cut") if line["type"] == "step"]
    assert steps == list(range(1, 61))
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def stopped_after(steps: int, stop: signal.Signals, argv: Sequence[str], folder: Path) -> int:
    """Starts a training run, waits for some steps, sends the signal; its exit code."""
    log = folder / "cut" / "metrics.jsonl"
    env = os.environ | {"TTF_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "ttf", "train", *argv]
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE) as child:
        wait_until(lambda: log.exists() and log.read_text().count('"type": "step"') >= steps, 60)
        child.send_signal(stop)
        _, err = child.communicate(timeout=60)
    assert b"ttf resume" in err
    return child.returncode


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in metrics(folder) if line["type"] == "step"]


def test_a_finished_run_has_a_whole_folder_and_serves_every_verb(
    small_sets: Sets,
    tmp_path: Path,
    run_ttf: RunTtf,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = small_sets["npz"]
    argv = words(files, "--epochs", "2", "--miner", "hnswlib", "--out", "run")
    done = run_ttf("train", *argv, "--json")
    assert done.code == 0, done.err
    run = tmp_path / "run"
    for name in (
        *("run.toml", "manifest.json", "metrics.jsonl", "memory.jsonl", "summary.json"),
        *(
            "log.txt",
            "report.html",
            "model/model.safetensors",
            "model/config.json",
            "index/index.json",
        ),
        *("checkpoints", "candidates", "incidents"),
    ):
        assert (run / name).exists(), name
    assert "Next:" in done.err
    found = done.json()
    assert found["samples"] == found["steps"] * 32
    assert found["peak_anon_mb"] > 50
    evaluated = invoke(["eval", "run", "--json"])
    assert evaluated.json()["metrics"] == pytest.approx(found["metrics"], abs=1e-9)
    searched = invoke(["search", "run", "--queries", files["pairs"], "-k", "4", "--out", "f.npz"])
    assert searched.code == 0, searched.err
    mined = invoke(["mine", "run", "-k", "5", "--out", "mined.npz", "--json"])
    assert (mined.json()["queries"], mined.json()["k"]) == (400, 5)
    again = invoke(["resume", "run", "--json", "--in-process"])
    assert again.code == 0
    assert again.json()["weights_sha256"] == found["weights_sha256"]
    init = ["--init", "run/model/model.safetensors", "--out", "more"]
    started_from = invoke(["train", *argv[:-2], *init, "--json", "--in-process"])
    assert started_from.json()["metrics_initial"] == pytest.approx(found["metrics"], abs=1e-6)


def test_patience_ends_a_run_and_the_best_weights_are_kept(
    small_sets: Sets, tmp_path: Path
) -> None:
    config = {
        "data": dict(small_sets["npz"]),
        "tower": {"query": {"name": "gru", "hidden": 16}},
        "miner": {"negatives": 0},
        "train": {"epochs": 30, "batch_size": 16, "accumulate": 2, "lr": 0.05},
        "evaluate": {"patience": 2},
        "device": {"name": "cpu", "threads": 1},
    }
    found = ttf.train(config, out=tmp_path / "run", supervised=False).summary
    evaluations = [line for line in metrics(tmp_path / "run") if line["type"] == "eval"]
    best = max(evaluations, key=lambda line: line["metrics"]["recall@10"])
    assert found["metrics"]["recall@10"] == best["metrics"]["recall@10"]
    assert found["steps"] < 30 * (400 // 32)


def test_the_plan_writes_nothing(
    small_sets: Sets, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(["train", *words(small_sets["npz"]), "--plan", "--json"])
    assert done.code == 0, done.err
    plan = done.json()
    assert plan["samples_per_step"] == 32
    assert plan["peak_anon_bytes"] > 0
    assert not list(tmp_path.iterdir())


def test_run_toml_states_every_option_of_the_chosen_plugins(
    small_sets: Sets, tmp_path: Path
) -> None:
    run = train(small_sets, tmp_path / "run", miner="hnswlib", steps=2)
    text = (tmp_path / "run" / "run.toml").read_text()
    for line in ("bidirectional = true", "hidden = 16", "ef_construction = ", "batch_size = 16"):
        assert line in text, text
    again = ttf.train(tmp_path / "run" / "run.toml", out=tmp_path / "again", supervised=False)
    assert again.summary["weights_sha256"] == run.summary["weights_sha256"]
    assert again.summary["predicted_anon_mb"] == run.summary["predicted_anon_mb"] > 100


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[[gates]]\nat = "epoch 50"\nneed = "recall@10 >= 0"\n', "at = 'epoch 50'"),
        ("[loss]\nsymmetric = true\n[train]\ngrad_cache = false\nfuse = 1\n", "symmetric loss"),
    ],
    ids=["a gate behind the end", "symmetric without GradCache"],
)
def test_what_could_not_be_kept_is_refused(
    toml: str,
    says: str,
    small_sets: Sets,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(toml)
    argv = words(small_sets["npz"], "--steps=3", "--out=run", "--in-process")
    done = invoke(["train", "run.toml", *argv])
    assert done.code == 2, done.err
    assert says in done.err
    assert not (tmp_path / "run").exists()


FROZEN = """
import ttf
from ttf import Availability, NoOptions, TowerCost

class Turn:
    name, options_type = "turn", NoOptions
    def availability(self):
        return Availability(ok=True)
    def estimate(self, shape, options):
        return TowerCost(parameters=0, activation_bytes=0, forward_flops=0)
    def create(self, shape, options):
        import torch
        class Module(torch.nn.Module):
            in_dim = out_dim = shape.in_dim
            frozen, identity = True, False
            def forward(self, x, lengths=None):
                return x.flip(-1) * 2.0
        return Module()

@ttf.hookimpl
def ttf_tower(name):
    return Turn() if name == "turn" else None
"""


def test_a_frozen_document_tower_is_encoded_once_and_its_index_is_kept(
    small_sets: Sets,
    tmp_path: Path,
    fake_plugins: FakeDistribution,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fake_plugins.add("turning", {"tower.turn": "turning"})
    fake_plugins.module("turning", FROZEN)
    more = [
        "--in-process",
        "--doc-tower",
        "turn",
        "--tower",
        "linear",
        "--miner",
        "hnswlib",
        "--steps",
        "60",
    ]
    argv = words(small_sets["npz"], *more, "--set", "miner.refresh=20")
    argv = [word for word in argv if "hidden" not in word]
    argv.remove("--set")
    whole = invoke(["train", *argv, "--out", "run", "--json"])
    assert whole.code == 0, whole.err
    index = json.loads((tmp_path / "run" / "index" / "index.json").read_text())
    assert index["origin"] == "reused", "the second round did not build again"
    assert (tmp_path / "run" / "index" / "documents.npz").exists()
    evaluated = invoke(["eval", str(tmp_path / "run"), "--json"])
    assert evaluated.json()["metrics"] == pytest.approx(whole.json()["metrics"], abs=1e-6)
