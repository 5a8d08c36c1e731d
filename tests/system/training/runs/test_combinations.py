"""Every pair of miner, storage and tower (TTF_CHAOS=1: every three) trains a few steps; only the configuration differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.kit.widely import wide

import ttf

MINERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {}),
    "faiss-flat": ("faiss", {"kind": "flat"}),
    "faiss-hnsw": ("faiss", {"kind": "hnsw"}),
    "faiss-ivf": ("faiss", {"kind": "ivf", "nlist": 8}),
    "hnswlib": ("hnswlib", {}),
}
TOWERS = ("gru", "lstm", "transformer", "mlp", "linear", "identity")


def settings(tower: str, miner: str, files: Mapping[str, str]) -> dict[str, Any]:
    name, options = MINERS[miner]
    small = {"hidden": 8} if tower in ("gru", "lstm", "mlp") else {}
    # The identity has nothing to train, so that the documents' side does.
    doc = {"name": "linear"} if tower == "identity" else {"name": "identity"}
    return {
        "data": dict(files),
        "tower": {"query": {"name": tower, **small}, "doc": doc},
        "miner": {"name": name, name: options, "k": 20, "refresh": 3, "isolation": "none"},
        "negatives": {"min_yield": 0.0},
        "train": {"steps": 5, "batch_size": 16, "accumulate": 2},
        "evaluate": {"every": "end"},
        "device": {"name": "cpu", "threads": 1},
    }


EVERY = [
    pytest.param(tower, miner, storage, marks=[] if (t + m + s) % 2 else [wide])
    for t, tower in enumerate(TOWERS)
    for m, miner in enumerate(MINERS)
    for s, storage in enumerate(("npz", "zarr"))
]
"""Half of them hold every pair."""


@pytest.mark.parametrize(("tower", "miner", "storage"), EVERY)
def test_every_combination_trains(
    tower: str,
    miner: str,
    storage: str,
    small_sets: Mapping[str, Mapping[str, str]],
    tmp_path: Path,
) -> None:
    run = trained(settings(tower, miner, small_sets[storage]), tmp_path / "run")
    assert run.summary["status"] == "finished"
    assert run.summary["steps"] == 5
    assert run.summary["miner"] == MINERS[miner][0]
    assert run.summary["exact"], run.summary["deviations"]
    mined = [line for line in lines(run.path / "metrics.jsonl") if line["type"] == "mining"]
    assert [line["step"] for line in mined] == [0, 3]


@pytest.mark.parametrize("miner", ["exact", "faiss-hnsw", "hnswlib"])
def test_the_storage_does_not_change_the_weights(
    miner: str, small_sets: Mapping[str, Mapping[str, str]], tmp_path: Path
) -> None:
    def weights(storage: str) -> str:
        config = settings("mlp", miner, small_sets[storage])
        # Shuffled rows are keyed by the data's fingerprint, which names the container.
        config["train"]["shuffle"] = False
        run = trained(config, tmp_path / storage)
        return str(run.summary["weights_sha256"])

    assert weights("npz") == weights("zarr")


def trained(config: dict[str, Any], out: Path) -> ttf.Run:
    """In this process: what is combined here does not depend on who watches over it."""
    return ttf.train(config, out=out, supervised=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
