"""Data with one thing changed: the rest is what it was, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.errors import ArtifactDamaged
from ttf.host.plugins import open_store
from ttf.tools.bisect.rewrite_data import DataChange, rewrite

Arrays = dict[str, Any]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4, 3), np.float32)
SEQ = np.array([[-1, 1, -1, 2], [3, 4, 5, 6], [-1, -1, -1, 7], [8, 9, -1, -1]])


def made(
    folder: Path, arrays: Arrays, change: DataChange, names: dict[str, str] | None = None
) -> Any:
    np.savez(folder / "pairs.npz", **arrays)
    np.savez(folder / "bank.npz", vectors=X[:, 0])
    data = {
        "pairs": str(folder / "pairs.npz"),
        "bank": str(folder / "bank.npz"),
        "context": None,
        "storage": "auto",
        "names": names or {},
    }
    edits = rewrite(data, change, folder / "made")
    store = open_store(edits["data.pairs"])
    try:
        out = {}
        for name in store.names():
            source = store.source(name)
            out[name] = np.array(source.read(0, source.shape[0]))
        return edits, out
    finally:
        store.close()


def test_fewer_pairs_are_the_first_ones_and_validation_stays(tmp_path: Path) -> None:
    arrays = {"X_train": X, "X_val": X[:2], "pos_train": np.arange(6), "pos_val": np.arange(2)}
    edits, out = made(tmp_path, arrays, DataChange(rows=4))
    assert set(edits) == {"data.pairs"}
    assert np.array_equal(out["X_train"], X[:4]) and np.array_equal(out["pos_train"], range(4))
    assert np.array_equal(out["X_val"], X[:2])


def test_mapped_names_are_understood(tmp_path: Path) -> None:
    arrays = {"queries": X, "X_val": X, "pos_train": np.arange(6), "pos_val": np.arange(6)}
    _, out = made(tmp_path, arrays, DataChange(rows=2, length=2), {"X_train": "queries"})
    assert np.array_equal(out["queries"], X[:2, :2])


def test_sequences_are_cut_and_their_lengths_with_them(tmp_path: Path) -> None:
    lengths = np.array([1, 2, 3, 4, 1, 2])
    _, out = made(tmp_path, {"X_train": X, "len_train": lengths}, DataChange(length=2))
    assert np.array_equal(out["X_train"], X[:, :2])
    assert out["len_train"].tolist() == [1, 2, 2, 2, 1, 2]


def test_sequences_are_cut_and_their_mask_with_them(tmp_path: Path) -> None:
    mask = (np.arange(X.shape[1]) < np.array([1, 2, 3, 4, 1, 2])[:, None]).astype(np.uint8)
    _, out = made(tmp_path, {"X_train": X, "mask_train": mask}, DataChange(length=2))
    assert out["mask_train"].sum(axis=1).tolist() == [1, 2, 2, 2, 1, 2]


def test_sequences_of_one_step_are_repeated(tmp_path: Path) -> None:
    arrays = {"X_train": X[:, :1], "len_train": np.ones(6, np.int64)}
    _, out = made(tmp_path, arrays, DataChange(length=2))
    assert np.array_equal(out["X_train"][:, 0], out["X_train"][:, 1])
    assert out["len_train"].tolist() == [2] * 6


@pytest.mark.parametrize("length", [0, 5, 300_000])
def test_a_length_that_no_study_of_ours_has_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(ArtifactDamaged, match="steps, but they have 4"):
        made(tmp_path, {"X_train": X}, DataChange(length=length))
    assert not [path for path in (tmp_path / "made").iterdir() if path.stat().st_size]


def test_a_cut_keeps_valid_steps_rather_than_padding(tmp_path: Path) -> None:
    _, out = made(tmp_path, {"seq_train": SEQ}, DataChange(length=2))
    assert out["seq_train"].tolist() == [[1, 2], [3, 4], [7, -1], [8, 9]]


def test_single_vectors_have_no_length_to_change(tmp_path: Path) -> None:
    _, out = made(tmp_path, {"X_train": X[:, 0]}, DataChange(length=2))
    assert np.array_equal(out["X_train"], X[:, 0])


@pytest.mark.parametrize("storage", ["zarr"])
def test_another_container_holds_the_same_arrays(tmp_path: Path, storage: str) -> None:
    edits, out = made(
        tmp_path, {"X_train": X, "pos_train": np.arange(6)}, DataChange(storage=storage)
    )
    assert edits["data.storage"] == storage
    assert set(edits) == {"data.pairs", "data.bank", "data.storage"}
    assert np.array_equal(out["X_train"], X)


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    edits, _ = made(tmp_path, {"X_train": X}, DataChange(rows=2))
    before = Path(edits["data.pairs"]).stat().st_mtime_ns
    made(tmp_path, {"X_train": X}, DataChange(rows=2))
    assert Path(edits["data.pairs"]).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("steps", "change"),
    [
        (4, DataChange(length=300_000)),
        (4, DataChange(length=5)),
        (1, DataChange(length=3)),
        (4, DataChange(length=0)),
        (4, DataChange(rows=-1)),
    ],
)
def test_a_study_that_asks_for_more_data_than_there_is_gets_none(
    steps: int, change: DataChange, tmp_path: Path
) -> None:
    arrays = {"X_train": X[:, :steps], "X_val": X[:2, :steps], "pos_train": np.arange(6)}
    with pytest.raises(ArtifactDamaged, match="only cuts data"):
        made(tmp_path, arrays, change)
    assert not list((tmp_path / "made").iterdir())
