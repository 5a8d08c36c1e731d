"""`loss.negatives = "bank"` in a configuration: what it settles, what it refuses, a whole run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.training.world import open_small

import ttf
from ttf.config.resolve import resolve
from ttf.data.dataset import Dataset
from ttf.data.synth import SynthShape, write_synth
from ttf.errors import ConfigError
from ttf.machine.devices import choose
from ttf.training.auto import Decided, decide


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("whole")) as opened:
        yield opened


def decided(data: Dataset, **flags: Any) -> Decided:
    also = {name.replace("__", "."): value for name, value in flags.items()}
    given = {"tower": "linear", "memory.budget": "1GiB", "loss.negatives": "bank", **also}
    resolved = resolve(flags=given)
    return decide(resolved, data, choose("cpu", {}, 1))


def test_neither_miner_nor_memory_bank_is_needed_and_the_reason_is_kept(data: Dataset) -> None:
    found = decided(data)
    assert (found.config.miner.negatives, found.config.loss.memory_bank) == (0, 0)
    for key in ("miner.negatives", "loss.memory_bank"):
        assert "every document is a negative already" in found.resolved.origins[key]
    assert found.notes == ()


def test_those_that_were_asked_for_are_told_to_be_of_no_use(data: Dataset) -> None:
    found = decided(data, miner__negatives=3, loss__memory_bank=20)
    assert (found.config.miner.negatives, found.config.loss.memory_bank) == (0, 0)
    assert [note.split(" (")[0] for note in found.notes] == [
        "miner.negatives = 3",
        "loss.memory_bank = 20",
    ]
    assert decided(data, miner__negatives=0, loss__memory_bank=0).notes == ()


def test_graphs_are_kept_where_the_budget_holds_them_and_made_twice_where_not(
    data: Dataset,
) -> None:
    cut = {"batch_size": 4, "accum": 4, "train.fuse": 1}
    kept = decided(data, **cut)
    assert kept.config.train.grad_cache is False
    assert "kept for one pass" in kept.resolved.origins["train.grad_cache"]
    twice = decided(data, **cut, memory__budget=1024)
    assert twice.config.train.grad_cache is True
    assert "more than half of memory.budget" in twice.resolved.origins["train.grad_cache"]
    assert decided(data, **cut, train__grad_cache=True).config.train.grad_cache is True


def test_documents_that_train_are_refused(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="where documents do not train.*'linear' does"):
        decided(data, doc_tower="linear")


def test_the_symmetric_loss_is_refused(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        decided(data, loss__symmetric=True)


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
