"""The correction for hubs: what is drawn and left out, the choice of its strength, its work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.kit.small_training import World, open_small

from ttf.errors import ArtifactDamaged
from ttf.rundir.verified_folders import with_own_digest
from ttf.training.calibration.choose import GRID, choose
from ttf.training.calibration.hubness import by_positive
from ttf.training.calibration.ranks import Ranked, ranks_by_factor
from ttf.training.calibration.sample import MOST_RANKED, draw_documents, draw_pairs
from ttf.training.calibration.stored import (
    BankCalibration,
    SampledQueries,
    bank_of,
    queries_of,
    save_bank,
    save_queries,
)
from ttf.training.calibration.work import AREA, WORK, Work

RNG = np.random.default_rng(0)


# --- what is drawn, and what is left out ----------------------------------------------------------


def test_no_pair_is_both_sampled_and_held_out() -> None:
    drawn = draw_pairs(3000, 20_000, 0, "data")
    assert len(drawn.held_out) == 600
    assert len(drawn.sampled) == 2400
    assert not np.intersect1d(drawn.held_out, drawn.sampled).size
    other = draw_pairs(3000, 20_000, 1, "data")
    assert not np.array_equal(drawn.held_out, other.held_out)


def test_of_many_documents_some_are_ranked_and_every_positive_among_them() -> None:
    wanted = np.array([[7, -1], [999_999, 8]])
    some = draw_documents(1_000_000, wanted, 0, "data")
    assert np.isin([7, 8, 999_999], some).all()
    assert MOST_RANKED <= len(some) <= MOST_RANKED + 3
    assert (np.diff(some) > 0).all()


def test_a_document_leaves_out_the_queries_that_it_answers() -> None:
    own = by_positive(np.array([[3, -1], [1, 3], [0, -1]]), 5)
    found = own(np.array([3, 4, 1]))
    assert sorted(zip(found.vectors.tolist(), found.rows.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (2, 1),
    ]


# --- the choice -----------------------------------------------------------------------------------


def ranks(count: int = 1000) -> NDArray[np.int64]:
    return RNG.integers(0, 200, (count, 1))


def test_the_strength_with_the_best_bound_is_taken() -> None:
    plain = ranks()
    found = choose(plain, {0.25: plain // 2, 0.5: plain // 4, 0.75: plain})
    assert (found.a, found.held_out) == (0.5, 1000)
    assert found.gain > 0
    assert not found.why


def test_without_evidence_it_stays_off_and_says_so() -> None:
    found = choose(ranks(), {a: ranks() for a in GRID})
    assert found.a == 0
    assert "no evidence of a gain on 1,000 held-out training pairs" in found.why


def test_a_gain_far_down_that_costs_the_top_is_none() -> None:
    plain = np.repeat([0, 5000], [100, 900])[:, None]
    lower = np.repeat([12, 30], [100, 900])[:, None]
    found = choose(plain, dict.fromkeys(GRID, lower))
    assert found.a == 0
    assert "would lower recall@10" in found.why


# --- what is on disk in between -------------------------------------------------------------------


def test_a_strength_that_was_changed_in_the_file_is_refused(tmp_path: Path) -> None:
    found = BankCalibration(a=0.5, hubness=np.arange(3, dtype=np.float32))
    save_bank(tmp_path, "bank", "weights", found)
    read = bank_of(tmp_path, "bank", "weights", 3)
    assert read is not None
    assert read.a == 0.5
    path = tmp_path / AREA / "bank" / "manifest.json"
    path.write_text(path.read_text().replace('"a": 0.5', '"a": 5.0'))
    with pytest.raises(ArtifactDamaged, match=r"manifest\.json does not match its own SHA-256"):
        bank_of(tmp_path, "bank", "weights", 3)


def _sealed(folder: Path, changed: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """As somebody who knows the format changes a calibration."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["document_sha256"]
    for name, array in arrays.items():
        np.save(folder / name, array)
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(with_own_digest({**manifest, **changed})))


@pytest.mark.parametrize(
    ("changed", "hubness", "problem"),
    [
        ({"a": {"b": 1}}, None, "a is no number"),
        ({"sha256": {}}, None, "KeyError"),
        ({}, np.zeros(2, np.float32), "has 2 documents instead of 3"),
        ({}, np.zeros((3, 1), np.float32), "another type or shape"),
        ({}, np.array(["x", "y", "z"]), "another type or shape"),
        ({}, np.array([0, np.nan, 1], np.float32), "not finite"),
    ],
    ids=["strength", "no file", "rows", "dimensions", "type", "nan"],
)
def test_a_received_calibration_of_a_bank_is_checked_before_it_is_used(
    tmp_path: Path, changed: dict[str, Any], hubness: NDArray[Any] | None, problem: str
) -> None:
    found = BankCalibration(a=0.5, hubness=np.arange(3, dtype=np.float32))
    save_bank(tmp_path, "bank", "weights", found)
    arrays = {} if hubness is None else {"hubness.npy": hubness}
    _sealed(tmp_path / AREA / "bank", changed, arrays)
    with pytest.raises(ArtifactDamaged, match=problem):
        bank_of(tmp_path, "bank", "weights", 3)


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.zeros((3, 5), np.float32), "5 values instead of 4"),
        (np.zeros((2, 4), np.float32), "differ in length"),
    ],
)
def test_received_queries_of_another_shape_are_refused(
    tmp_path: Path, vectors: NDArray[Any], problem: str
) -> None:
    whole = SampledQueries(
        vectors=np.zeros((3, 4), np.float32), positives=np.zeros((3, 1), np.uint64)
    )
    save_queries(tmp_path, "weights", whole)
    assert queries_of(tmp_path, "weights", 4) is not None
    _sealed(tmp_path / AREA / "queries", {}, {"vectors.npy": vectors})
    with pytest.raises(ArtifactDamaged, match=problem):
        queries_of(tmp_path, "weights", 4)


def test_a_part_that_does_not_read_back_is_none(tmp_path: Path) -> None:
    work = Work(tmp_path, "key")
    work.put("some", np.arange(5.0))
    np.testing.assert_array_equal(work.get("some"), np.arange(5.0))
    path = tmp_path / WORK / "key" / "some"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert work.get("some") is None
    assert work.get("other") is None


def test_each_finished_part_is_told_once_also_by_the_process_that_goes_on(tmp_path: Path) -> None:
    told: list[int] = []
    work = Work(tmp_path, "key", told.append)
    for name in ("some", "other", "some"):
        work.put(name, np.arange(3))
    again = Work(tmp_path, "key", told.append)
    assert again.get("some") is not None and again.get("missing") is None
    again.put("missing", np.arange(3))
    assert told == [1, 2, 2, 1, 2]


def test_the_work_of_other_weights_goes(tmp_path: Path) -> None:
    Work(tmp_path, "before").put("some", np.arange(3))
    work = Work(tmp_path, "now")
    assert [path.name for path in (tmp_path / WORK).iterdir()] == ["now"]
    work.clear()
    assert not (tmp_path / WORK).exists()


# --- ranks ----------------------------------------------------------------------------------------


def test_ranks_are_those_of_every_score_with_every_strength(tmp_path: Path) -> None:
    world = World(open_small(tmp_path))
    documents = world.documents
    vectors = documents.vectors(np.arange(documents.rows)).numpy()
    queries = RNG.standard_normal((70, vectors.shape[1])).astype(np.float32)
    ids = np.sort(RNG.permutation(documents.rows)[:50])
    known = np.stack([RNG.choice(ids, 70), np.where(np.arange(70) % 3, RNG.choice(ids, 70), -1)], 1)
    hubness = RNG.random(50).astype(np.float32)
    told = []
    ranked = Ranked(documents, ids, hubness, lambda done, total: told.append((done, total)))
    found = ranks_by_factor(ranked, torch.from_numpy(queries), known, (0.0, 0.75))
    for a, ranks in found.items():
        scores = queries @ vectors[ids].T - a * hubness
        for query, column in np.ndindex(known.shape):
            row = known[query, column]
            own = scores[query, np.searchsorted(ids, row)]
            rank = -1 if row < 0 else int((scores[query] > own + 1e-5).sum())
            assert ranks[query, column] == rank
    assert told[-1] == (50, 50)
