"""Dataclasses that cross a process border as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from ttf.contracts import MinerContext
from ttf.data.sources import VectorRef
from ttf.mining.job import IndexRecord, MiningJob, MiningReport
from ttf.rundir.request import Change, History, TrainRequest
from ttf.rundir.typed_json import dataclass_from

INDEX = IndexRecord(
    key="k", origin="built", path=None, size_bytes=0, sha256={"a": "b"}, made_from={"rows": [1]}
)
WHOLE: list[TrainRequest | MiningJob | MiningReport] = [
    TrainRequest(
        run_dir="runs/run-001",
        config={"train": {"steps": 3}},
        sets=("train.lr=1",),
        remedies=False,
        overlay={"train.threads": Change(value=1, origin="remedy")},
        history=History(restarts=2, incidents=("001", "002")),
        command=("ttf", "train"),
    ),
    TrainRequest(run_dir="runs/run-001", config="run.toml"),
    MiningJob(
        bank=VectorRef(uri="bank.npz", array="vectors", unit=True),
        queries="q.npy",
        k=3,
        miner="exact",
        options={"M": 4},
        context=MinerContext(threads=2, seed=0, deterministic=True, budget_bytes=1 << 20),
        out="out",
    ),
    *(
        MiningReport(
            miner="exact",
            bank_rows=4,
            queries=2,
            k=3,
            build_s=0.5,
            search_s=1.0,
            continued_from=0,
            index=index,
            key="k",
            ids_path="ids.npy",
            scores_path="scores.npy",
            deaths=("one",),
        )
        for index in (None, INDEX)
    ),
]


@pytest.mark.parametrize("value", WHOLE, ids=lambda value: type(value).__name__)
def test_what_went_through_json_is_what_it_was(
    value: TrainRequest | MiningJob | MiningReport,
) -> None:
    sent = json.loads(json.dumps(asdict(value)))
    assert dataclass_from(type(value), sent) == value


@pytest.mark.parametrize("change", [{"index": 3}, {"deaths": None}, {"surplus": 1}])
def test_what_is_no_such_object_is_refused(change: dict[str, object]) -> None:
    sent = {**asdict(WHOLE[-1]), **change}
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        dataclass_from(MiningReport, sent)
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        dataclass_from(MiningReport, {"miner": "exact"})
