"""The suite that ttf has for miners, and what is particular to usearch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from ttf import ArtifactDamaged, ConfigError, MinerContext, StorageError
from ttf.testing import MemorySource, MinerTests, clustered_rows

from ttf_miner_usearch._index import UsearchMiner
from ttf_miner_usearch.usearch_miner import UsearchOptions

CONTEXT = MinerContext(threads=2, seed=3, deterministic=True, budget_bytes=64 << 20)
BANK, QUERIES = clustered_rows(1, 5000), clustered_rows(2, 300)


class TestUsearch(MinerTests):
    name = "usearch"
    recall_floor = 0.98


def built(bank: NDArray[np.float32] = BANK, **options: Any) -> UsearchMiner:
    miner = UsearchMiner(UsearchOptions(**options), CONTEXT)
    miner.build(MemorySource(bank), Path())
    return miner


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_noticed_and_the_index_stays_usable(tiny_disk: Path) -> None:
    miner = built()
    expected, _ = miner.search(QUERIES, 5)
    with pytest.raises(StorageError, match="could not be written"):
        miner.save(tiny_disk)
    assert (miner.search(QUERIES, 5)[0] == expected).all()


def test_a_disk_that_is_full_for_the_last_bytes_is_noticed(tiny_disk: Path) -> None:
    """They are still in the stream's buffer when usearch closes it, and nobody looks."""
    miner = built(BANK[:200])
    index, _ = miner._ready()
    taken = (128 << 10) - index.serialized_length // 4096 * 4096
    (tiny_disk / "others").write_bytes(bytes(taken))
    with pytest.raises(StorageError, match="usearch does not report"):
        miner.save(tiny_disk)


def test_a_missing_folder_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="could not be written"):
        built(BANK[:500]).save(tmp_path / "nowhere")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_file_cut_short_is_refused(tmp_path: Path, share: float) -> None:
    built(BANK[:500]).save(tmp_path)
    (file,) = tmp_path.iterdir()
    os.truncate(file, int(file.stat().st_size * share))
    with pytest.raises(ArtifactDamaged, match="incomplete or damaged usearch index"):
        UsearchMiner(UsearchOptions(), CONTEXT).load(tmp_path, MemorySource(BANK[:500]))


@pytest.mark.parametrize(
    ("options", "bank"),
    [({}, BANK[:400]), ({}, BANK[:500, :20].copy()), ({"dtype": "f16"}, BANK[:500])],
    ids=["fewer rows", "narrower", "of another type"],
)
def test_the_file_of_another_bank_is_refused(
    tmp_path: Path, options: dict[str, Any], bank: NDArray[np.float32]
) -> None:
    built(BANK[:500]).save(tmp_path)
    with pytest.raises(ArtifactDamaged, match="has 500 rows of 24"):
        UsearchMiner(UsearchOptions(**options), CONTEXT).load(tmp_path, MemorySource(bank))


def test_a_graph_in_pieces_is_answered_in_full() -> None:
    miner = built(BANK[:900], connectivity=2, expansion_add=2, expansion_search=1)
    ids, scores = miner.search(QUERIES, 600)
    assert all(len(set(row)) == 600 for row in ids.tolist())
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", QUERIES, BANK[ids]), atol=2e-6)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_half_precision_index_finds_as_much_and_scores_as_the_bank_does(
    dtype: Literal["f16", "bf16"], tmp_path: Path
) -> None:
    miner = built(dtype=dtype)
    ids, scores = miner.search(QUERIES, 20)
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", QUERIES, BANK[ids]), atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()
    truth = np.argsort(-(QUERIES @ BANK.T), axis=1)[:, :20]
    found = [len(np.intersect1d(a, b)) / 20 for a, b in zip(ids, truth, strict=True)]
    assert np.mean(found) >= 0.98
    miner.save(tmp_path)
    again = UsearchMiner(UsearchOptions(dtype=dtype), CONTEXT)
    again.load(tmp_path, MemorySource(BANK))
    same_ids, same_scores = again.search(QUERIES, 20)
    assert (same_ids == ids).all() and (same_scores == scores).all()


def test_numbers_that_f16_cannot_hold_are_refused_and_bf16_holds_them() -> None:
    bank = BANK[:500].copy()
    bank[7, 3] = 1e5
    with pytest.raises(ConfigError, match=r"vectors\[7\] in memory holds 100000"):
        built(bank, dtype="f16")
    assert np.isfinite(built(bank, dtype="bf16").search(QUERIES, 5)[1]).all()
