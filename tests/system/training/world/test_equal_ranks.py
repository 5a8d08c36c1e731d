"""Any number of processes trains to the same bits: weights, mined tables, losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.ranks import folder_of, results_of, small_data, train_ranks
from tests.kit.widely import wide

MINED = {"miner.negatives": 4, "miner.start": 0, "miner.refresh": 12, "miner.name": "exact"}
MODES: dict[str, dict[str, Any]] = {
    "mining": {
        **MINED,
        "loss.memory_bank": 64,
        "train.accumulate": 2,
        "loss.learn_temperature": True,
    },
    "grad_cache": {"train.grad_cache": True, "train.accumulate": 4},
    "symmetric": {"loss.symmetric": True},
    "full_bank": {"loss.negatives": "bank"},
    "full_bank_cached": {"loss.negatives": "bank", "train.grad_cache": True},
    "reused_queries": {**MINED, "miner.queries": "reuse", "miner.refresh": "epoch"},
    "trained_documents": {"tower.doc.name": "mlp", "loss.memory_bank": 64, **MINED},
    "trained_documents_cached": {"tower.doc.name": "mlp", "train.grad_cache": True},
    "mlp_bf16": {"tower.query.name": "mlp", "device.precision": "bf16", **MINED},
}
COMMON = {
    "train.shards": 8,
    "train.steps": 30,
    "train.batch_size": 32,
    "device.threads": 1,
    "tower.query.name": "gru",
    "tower.query.hidden": 16,
    "device.precision": "fp32",
    "evaluate.patience": 0,
    "calibrate.enabled": True,
}


def run_with(folder: Path, ranks: int, mode: str) -> tuple[str, dict[str, Any]]:
    flags = {**small_data(folder / "data"), **COMMON, **MODES[mode]}
    out = folder / f"run-{ranks}"
    ended = train_ranks(out, ranks, flags)
    summaries = [each.summary for each in ended]
    weights = {summary["weights_sha256"] for summary in summaries}
    assert len(weights) == 1
    assert summaries[0]["world_size"] == ranks
    assert all(summary["exact"] for summary in summaries)
    for rank in range(1, ranks):
        assert results_of(folder_of(out, rank)) == results_of(out)
    return weights.pop(), results_of(out)


@wide
@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_processes_trains_to_the_same_bits(tmp_path: Path, mode: str) -> None:
    alone = run_with(tmp_path, 1, mode)
    for ranks in (2, 3, 4, 5, 8):
        assert run_with(tmp_path, ranks, mode) == alone


@wide  # a killed rank of three: supervise/nodes
def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    flags = {**small_data(tmp_path / "data"), **COMMON, **MODES["mining"]}
    flags |= {"checkpoint.every_steps": 3}
    undisturbed, out = tmp_path / "alone", tmp_path / "run"
    alone = train_ranks(undisturbed, 1, flags)[0].summary
    first = train_ranks(out, 3, flags, kill=(1, 9))
    assert first[1].code == -9
    assert {each.end["error"]["class"] for each in (first[0], first[2])} == {"PeerLost"}
    last = [each.summary for each in train_ranks(out, 2, flags, resume=True)]
    assert {summary["weights_sha256"] for summary in last} == {alone["weights_sha256"]}
    assert all(summary["exact"] for summary in last)
    assert results_of(out) == results_of(undisturbed)


@wide
def test_and_again_with_more_of_them(tmp_path: Path) -> None:
    flags = {**small_data(tmp_path / "data"), **COMMON, **MODES["mining"]}
    flags |= {"checkpoint.every_steps": 3}
    undisturbed, out = tmp_path / "alone", tmp_path / "run"
    alone = train_ranks(undisturbed, 1, flags)[0].summary
    train_ranks(out, 1, flags, kill=(0, 6))
    assert train_ranks(out, 4, flags, resume=True, kill=(3, 12))[3].code == -9
    again = train_ranks(out, 3, flags, resume=True, kill=(0, 20))
    assert again[1].end["error"]["class"] == "PeerLost"
    last = [each.summary for each in train_ranks(out, 2, flags, resume=True)]
    assert {summary["weights_sha256"] for summary in last} == {alone["weights_sha256"]}
    assert results_of(out) == results_of(undisturbed)


@wide
def test_a_run_of_one_process_takes_shards_when_it_is_resumed_with_more(tmp_path: Path) -> None:
    flags = {**small_data(tmp_path / "data"), **COMMON, "train.shards": 1}
    flags |= {"checkpoint.every_steps": 3}
    train_ranks(tmp_path / "run", 1, flags, kill=(0, 12))
    ends = train_ranks(tmp_path / "run", 3, flags, resume=True)
    assert "exact: false, because the run was resumed with 3 processes" in ends[0].told
    last = [each.summary for each in ends]
    assert [summary["shards"] for summary in last] == [8, 8, 8]
    assert not last[0]["exact"]
    assert "resumed with 3 processes" in " ".join(last[0]["deviations"])


@wide
def test_shards_change_rounding_only(tmp_path: Path) -> None:
    # Dropout drops other values where micro-batches begin at other places.
    flags = {**small_data(tmp_path / "data"), **COMMON, "train.steps": 200}
    flags |= {"tower.query.dropout": 0.0, "loss.temperature": 0.5}
    found = []
    for shards in (1, 8):
        out = tmp_path / f"shards-{shards}"
        assert train_ranks(out, 1, {**flags, "train.shards": shards})[0].summary["steps"] == 200
        lines = results_of(out)["metrics"]
        found.append([line["loss"] for line in lines if line["type"] == "step"])
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert found[0] != found[1], "the cut into shards had no effect"
