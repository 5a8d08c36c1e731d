"""Runs with a calibration for hubs: trained or not, killed, opened, with another bank."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.hub_sets import DOCUMENTS, PAIRS, write_hub_set
from tests.kit.widely import wide

import ttf
from ttf.rundir import durable
from ttf.rundir.durable import Act, Operation
from ttf.training.calibration.choose import GRID
from ttf.training.calibration.work import WORK


def calibrated(folder: Path, *, hubs: bool = True, **more: Any) -> ttf.Run:
    """The vectors as they are: nothing is trained."""
    config = {
        "data": write_hub_set(folder, hubs=hubs),
        "tower": {"query": {"name": "identity"}},
        "device": {"threads": 1},
        **more,
    }
    return ttf.train(config, out=folder / "run", supervised=False)


@pytest.fixture(scope="module")
def with_hubs(tmp_path_factory: pytest.TempPathFactory) -> ttf.Run:
    return calibrated(tmp_path_factory.mktemp("hubs"))


def values(run_dir: Path) -> NDArray[np.float32]:
    facts = json.loads((run_dir / "model" / "calibration.json").read_text())
    found: NDArray[np.float32] = np.load(
        run_dir / "model" / "calibration" / facts["bank"] / "hubness.npy"
    )
    return found


def test_vectors_without_training_are_calibrated(with_hubs: ttf.Run) -> None:
    summary = with_hubs.summary
    assert (summary["status"], summary["steps"]) == ("finished", 0)
    found = summary["calibration"]
    assert found["on"]
    assert found["a"] in GRID
    assert found["gain"] > 0
    assert found["held_out"] == PAIRS // 5
    assert summary["metrics"]["recall@10"] > summary["metrics_uncalibrated"]["recall@10"]
    assert summary["metrics_uncalibrated"] == summary["metrics_initial"]
    assert not (with_hubs.path / WORK).exists()


def test_evaluation_and_search_agree_and_use_it(with_hubs: ttf.Run) -> None:
    with np.load(with_hubs.path.parent / "pairs.npz") as pairs, with_hubs.load() as model:
        found = model.search(pairs["X_val"], k=10)
        assert model.encode_queries(pairs["X_val"]).shape[1] == pairs["X_val"].shape[1]
        share = float((found.ids == pairs["pos_val"][:, None]).any(axis=1).mean())
        told = model.evaluate([10])
    assert share == pytest.approx(with_hubs.summary["metrics"]["recall@10"])
    assert told["metrics"]["recall@10"] == pytest.approx(share)
    assert (
        told["metrics_uncalibrated"]["recall@10"]
        == (with_hubs.summary["metrics_uncalibrated"]["recall@10"])
    )


def test_a_value_is_the_mean_over_the_training_queries_that_were_kept(with_hubs: ttf.Run) -> None:
    folder = with_hubs.path / "model" / "calibration" / "queries"
    queries, hashes = np.load(folder / "vectors.npy"), np.load(folder / "positives.npy")
    with np.load(with_hubs.path.parent / "bank.npz") as bank:
        documents = bank["vectors"]
    with np.load(with_hubs.path.parent / "pairs.npz") as pairs:
        row_of = {
            line.tobytes(): row
            for line, row in zip(pairs["X_train"], pairs["pos_train"], strict=True)
        }
        by_line = {tuple(np.round(line, 4)): row_of[line.tobytes()] for line in pairs["X_train"]}
    positive = np.array([by_line[tuple(np.round(line, 4))] for line in queries])
    scores = documents @ queries.T
    scores[positive, np.arange(len(queries))] = -np.inf
    facts = json.loads((with_hubs.path / "model" / "calibration.json").read_text())
    best = -np.sort(-scores, axis=1)[:, : facts["neighbours"]]
    np.testing.assert_allclose(values(with_hubs.path), best.mean(axis=1), rtol=1e-4)
    assert len(np.unique(hashes)) == len(queries)


def test_a_bank_whose_rows_moved_gets_no_values_of_the_old_one(with_hubs: ttf.Run) -> None:
    bank = with_hubs.path.parent / "bank.npz"
    before = bank.read_bytes()
    with np.load(bank) as held:
        moved = held["vectors"][::-1].copy()
    try:
        np.savez(bank, vectors=moved)
        with with_hubs.load() as model:
            assert model.calibration is None
            changed, uncorrected = model.notes
    finally:
        bank.write_bytes(before)
    assert "is not that of the training" in changed
    assert "calibrated, but not for this bank" in uncorrected
    with with_hubs.load() as model:
        assert model.calibration is not None and not model.notes


def test_without_hubs_it_stays_off(tmp_path: Path) -> None:
    run = calibrated(tmp_path, hubs=False)
    assert run.summary["calibration"]["on"] is False
    assert "no evidence of a gain" in run.summary["calibration"]["why"]
    assert "metrics_uncalibrated" not in run.summary
    assert run.summary["metrics"] == run.summary["metrics_initial"]
    with run.load() as model:
        assert model.calibration is None
        assert not model.notes


class _Died(BaseException):
    pass


@contextmanager
def dying_at(number: int) -> Iterator[None]:
    """At the N-th operation on files of the calibration."""
    met = 0

    def act(operation: Operation, do: Act) -> int:
        nonlocal met
        met += operation.area == "calibration"
        if met == number:
            raise _Died
        return do(memoryview(operation.data))

    with durable.intercepted(act):
        yield


@pytest.mark.parametrize("number", [2, 14, 30, *(pytest.param(n, marks=wide) for n in (7, 21, 40))])
def test_a_run_that_died_in_its_calibration_goes_on_to_the_same_values(
    number: int, with_hubs: ttf.Run, tmp_path: Path
) -> None:
    with pytest.raises(_Died), dying_at(number):
        calibrated(tmp_path)
    summary = ttf.resume(tmp_path / "run", supervised=False).summary
    for key in ("calibration", "metrics", "weights_sha256"):
        assert summary[key] == with_hubs.summary[key]
    np.testing.assert_array_equal(values(tmp_path / "run"), values(with_hubs.path))


def test_another_bank_gets_its_values_from_the_queries_that_were_kept(
    with_hubs: ttf.Run, tmp_path: Path
) -> None:
    with np.load(with_hubs.path.parent / "bank.npz") as bank:
        order = np.random.default_rng(1).permutation(DOCUMENTS)
        np.savez(tmp_path / "other.npz", vectors=bank["vectors"][order])
    before = ttf.evaluate(with_hubs.path)
    found = ttf.calibrate(with_hubs.path, bank=tmp_path / "other.npz")
    assert (found.on, found.documents) == (True, DOCUMENTS)
    others = [
        path
        for path in (with_hubs.path / "model" / "calibration").glob("*/hubness.npy")
        if not np.array_equal(np.load(path), values(with_hubs.path))
    ]
    np.testing.assert_array_equal(np.load(others[0]), values(with_hubs.path)[order])
    assert ttf.evaluate(with_hubs.path) == before


def test_a_model_is_calibrated_after_the_run(tmp_path: Path, with_hubs: ttf.Run) -> None:
    run = calibrated(
        tmp_path,
        calibrate={"enabled": False},
        tower={"query": {"name": "linear"}},
        train={"steps": 1},
        miner={"negatives": 0},
    )
    assert "calibration" not in run.summary
    digest = run.summary["weights_sha256"]
    found = ttf.calibrate(run.path)
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["calibration"]["a"] == found.a > 0
    assert summary["metrics"] == found.metrics
    assert summary["metrics_uncalibrated"] == run.summary["metrics"]
    assert summary["weights_sha256"] == digest
    assert np.isfinite(values(run.path)).all()


def test_a_mined_table_holds_what_a_search_finds(with_hubs: ttf.Run, tmp_path: Path) -> None:
    found = ttf.mine(
        with_hubs.path, out=tmp_path / "table.npz", k=5, isolation="none", miner="exact"
    )
    with np.load(with_hubs.path.parent / "pairs.npz") as pairs, with_hubs.load() as model:
        searched = model.search(pairs["X_train"], k=5)
    with np.load(tmp_path / "table.npz") as table:
        np.testing.assert_array_equal(table["ids"], searched.ids)
        np.testing.assert_allclose(table["scores"], searched.scores, rtol=1e-5)
    assert found.queries == PAIRS


def test_a_trained_document_tower_is_calibrated_as_it_encodes(tmp_path: Path) -> None:
    towers = {"query": {"name": "linear"}, "doc": {"name": "linear"}}
    run = calibrated(tmp_path, tower=towers, train={"steps": 2}, miner={"negatives": 0})
    assert run.summary["calibration"]["on"]
    with np.load(tmp_path / "pairs.npz") as pairs, run.load() as model:
        found = model.search(pairs["X_val"], k=10)
        with np.load(tmp_path / "bank.npz") as bank:
            encoded = model.encode_documents(bank["vectors"])
        queries = model.encode_queries(pairs["X_val"][:1])
        share = float((found.ids == pairs["pos_val"][:, None]).any(axis=1).mean())
    a = run.summary["calibration"]["a"]
    wanted = encoded[found.ids[0]] @ queries[0] - a * values(run.path)[found.ids[0]]
    np.testing.assert_allclose(found.scores[0], wanted, rtol=1e-4)
    assert share == pytest.approx(run.summary["metrics"]["recall@10"])
