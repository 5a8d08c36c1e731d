"""Candidate tables on disk: whole, verified, or named as damaged."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ttf.errors import ArtifactDamaged
from ttf.mining.miner_results import CandidateTable


@pytest.fixture
def table() -> CandidateTable:
    rng = np.random.default_rng(0)
    return CandidateTable(
        rows=np.array([2, 5, 9]),
        ids=rng.integers(0, 50, (3, 4)),
        scores=-np.sort(-rng.standard_normal((3, 4)).astype(np.float32), axis=1),
        positive_scores=np.array([0.5, np.nan, 0.1], np.float32),
        key="abc123",
        miner="exact",
    )


def test_a_saved_table_comes_back_as_it_was(table: CandidateTable, tmp_path: Path) -> None:
    folder = table.save(tmp_path / "candidates")
    assert folder == tmp_path / "candidates" / "abc123"
    back = CandidateTable.load(folder)
    for name in ("rows", "ids", "scores", "positive_scores"):
        np.testing.assert_array_equal(getattr(back, name), getattr(table, name))
    assert (back.key, back.miner, back.version) == ("abc123", "exact", "0")
    assert isinstance(back.ids, np.memmap)


def test_saving_again_replaces_and_leaves_nothing_beside(
    table: CandidateTable, tmp_path: Path
) -> None:
    table.save(tmp_path)
    table.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["abc123"]


@pytest.mark.parametrize("name", ["rows", "ids", "scores", "positive_scores"])
def test_a_flipped_bit_is_named(name: str, table: CandidateTable, tmp_path: Path) -> None:
    path = table.save(tmp_path) / f"{name}.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactDamaged, match=rf"{name}\.npy does not match its hash"):
        CandidateTable.load(path.parent)


def test_a_missing_file_or_manifest_is_named(table: CandidateTable, tmp_path: Path) -> None:
    folder = table.save(tmp_path)
    (folder / "ids.npy").unlink()
    with pytest.raises(ArtifactDamaged, match="incomplete or damaged"):
        CandidateTable.load(folder)
    os.truncate(folder / "manifest.json", 10)
    with pytest.raises(ArtifactDamaged, match="incomplete or damaged"):
        CandidateTable.load(folder)
    with pytest.raises(ArtifactDamaged, match="incomplete or damaged"):
        CandidateTable.load(tmp_path / "never")


def test_rows_are_found_by_number(table: CandidateTable) -> None:
    assert table.positions(np.array([9, 2, 3, 99, 5])).tolist() == [2, 0, -1, -1, 1]
