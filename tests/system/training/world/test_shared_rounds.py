"""Hosts that share a mining round: in parts of the queries or of the bank, with the same table."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.ranks import folders_of, results_of, small_data, train_ranks
from tests.kit.widely import wide

# 4,096 queries a round: miners share them in blocks of 1,024.
COMMON: dict[str, Any] = {
    "train.shards": 8,
    "train.steps": 16,
    "train.batch_size": 512,
    "device.threads": 1,
    "device.precision": "fp32",
    "tower.query.name": "gru",
    "tower.query.hidden": 16,
    "miner.negatives": 4,
    "miner.refresh": 8,
    "miner.name": "exact",
    "evaluate.patience": 0,
    "calibrate.enabled": True,
}
MODES: dict[str, dict[str, Any]] = {
    "passing": {},
    "nearest": {"miner.candidates": "nearest"},
    "below": {"miner.candidates": "below"},
    "trained_documents": {"tower.doc.name": "mlp"},
    "reused": {"miner.queries": "reuse", "miner.refresh": "epoch", "train.steps": 20},
    "bf16": {"device.precision": "bf16"},
}


def results(folder: Path, mode: dict[str, Any], nodes: Sequence[int]) -> dict[str, Any]:
    flags = {**small_data(folder / "data", pairs=4600, val=2500), **COMMON, **mode}
    out = folder / f"run-{'-'.join(map(str, nodes))}"
    ended = train_ranks(out, sum(nodes), flags, nodes=nodes)
    weights = {each.summary["weights_sha256"] for each in ended}
    assert len(weights) == 1
    assert all(each.summary["exact"] for each in ended)
    first, *others = [results_of(path) for path in folders_of(out, nodes)]
    assert all(other == first for other in others)
    return {**first, "weights": weights}


@wide  # tests/unit/training/test_shares.py asks the same of threads
def test_two_hosts_share_the_queries_of_a_round(tmp_path: Path) -> None:
    split = {"miner.split": "queries"}
    alone = results(tmp_path, split, (1,))
    assert results(tmp_path, split, (2, 1)) == alone
    beside = folders_of(tmp_path / "run-2-1", (2, 1))[1]
    # The second process of a host keeps no copy of its own.
    assert {path.stat().st_nlink for path in beside.glob("candidates/*/ids.npy")} == {2}


@wide
@pytest.mark.parametrize("split", ["queries", "rows"])
@pytest.mark.parametrize("mode", MODES)
def test_hosts_share_a_round_of_any_kind(tmp_path: Path, mode: str, split: str) -> None:
    flags = {**MODES[mode], "miner.split": split}
    alone = results(tmp_path, flags, (1,))
    for nodes in ((1, 1, 1), (2, 2, 1)):
        assert results(tmp_path, flags, nodes) == alone, nodes


@wide
@pytest.mark.parametrize("name", ["faiss", "hnswlib"])
def test_another_miner_answers_on_one_host(tmp_path: Path, name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    miner = {"miner.name": name}
    assert results(tmp_path, miner, (2, 1)) == results(tmp_path, miner, (1,))


@wide
def test_a_round_that_was_killed_goes_on_also_with_other_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {**small_data(tmp_path / "data", pairs=4600, val=2500), **COMMON}
    train_ranks(tmp_path / "alone", 1, flags)
    for nodes in ((2, 1), (1, 1)):
        out = tmp_path / f"killed-{len(nodes)}-{sum(nodes)}"
        monkeypatch.setenv("TTF_FAILPOINT", "round.write:9:kill")
        killed = train_ranks(out, 3, flags, nodes=(2, 1))
        assert {each.code for each in killed} == {-9}
        assert all(
            list(path.glob("candidates/round-*/encoded")) for path in folders_of(out, (2, 1))
        )
        monkeypatch.delenv("TTF_FAILPOINT")
        ended = train_ranks(out, sum(nodes), flags, nodes=nodes, resume=True)
        assert all(each.summary["exact"] for each in ended)
        assert results_of(out) == results_of(tmp_path / "alone")


@wide
def test_a_disk_that_refuses_the_table_of_one_host_lets_all_begin_the_round_again(
    tmp_path: Path,
) -> None:
    alone = results(tmp_path, {}, (1,))
    flags = {**small_data(tmp_path / "data", pairs=4600, val=2500), **COMMON}
    out, nodes = tmp_path / "full", (1, 1, 1)
    fault = (1, "candidates.rename:2:enospc")  # at the second round
    ended = train_ranks(out, 3, flags, nodes=nodes, failpoint=fault)
    assert {each.summary["weights_sha256"] for each in ended} == alone.pop("weights")
    assert all(each.summary["exact"] for each in ended)
    for each in ended:
        assert "No space left" in each.told
    for path in folders_of(out, nodes):
        assert results_of(path) == alone
