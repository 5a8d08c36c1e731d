"""`loss.negatives = "bank"` in a configuration: what it settles, what it refuses, a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.training.test_full_bank_runs import data  # noqa: F401

import ttf
from ttf.data.synth import SynthShape, write_synth


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    paths = write_synth(
        folder, SynthShape(pairs=400, val=60, seq_len=1, dim=16, bank=300, seed=3), container="npz"
    )
    return {"pairs": str(paths["pairs"]), "bank": str(paths["bank"])}


def trained(files: dict[str, str], out: Path, **sections: Any) -> ttf.Run:
    config: dict[str, Any] = {
        "data": dict(files),
        "tower": {"query": {"name": "mlp", "hidden": 8}},
        "loss": {"negatives": "bank"},
        "train": {"steps": 6, "batch_size": 16, "accumulate": 2},
        "evaluate": {"every": "end"},
        "device": {"name": "cpu", "threads": 1, "precision": "fp32"},
    }
    for name, values in sections.items():
        config[name] = config.get(name, {}) | values
    return ttf.train(config, out=out, supervised=False)


def steps_of(run: ttf.Run) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    return [line for line in told if line["type"] == "step"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_two_runs_of_a_seed_end_with_the_same_weights(
    files: dict[str, str], tmp_path: Path, precision: str
) -> None:
    device = {"precision": precision}
    runs = [trained(files, tmp_path / name, device=device) for name in ("a", "b")]
    first, second = (run.summary for run in runs)
    assert first["status"] == "finished" and first["exact"], first["deviations"]
    assert first["weights_sha256"] == second["weights_sha256"]
    told, again = (steps_of(run) for run in runs)
    assert [line["loss"] for line in told] == [line["loss"] for line in again]
    for line in told:
        assert 0 <= line["train_recall@10"] <= line["train_recall@100"] <= 1
        assert line["above_positive"] >= 0
        assert line["mined"] == 0


def test_a_run_by_dot_products_trains_too(files: dict[str, str], tmp_path: Path) -> None:
    run = trained(files, tmp_path / "dot", loss={"similarity": "dot"})
    assert run.summary["status"] == "finished"
