"""Saving to a disk that is full or lies: the libraries do not notice, the miners do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.plugins.miners.test_every_miner import BANK, KINDS, QUERIES, Kind

from ttf.data.sources import MemorySource
from ttf.errors import ArtifactDamaged, StorageError

INDEXED = [kind for kind in KINDS if kind.name in ("faiss-hnsw", "faiss-ivf", "hnswlib")]


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


@pytest.mark.parametrize("kind", INDEXED, ids=lambda kind: kind.name)
def test_a_full_disk_is_noticed_and_the_index_stays_usable(
    kind: Kind, tiny_disk: Path, tmp_path: Path
) -> None:
    miner = kind.make()
    miner.build(MemorySource(BANK), tmp_path)
    expected, _ = miner.search(QUERIES, 5)
    with pytest.raises(StorageError, match="index"):
        miner.save(tiny_disk)
    assert (miner.search(QUERIES, 5)[0] == expected).all()


@pytest.mark.parametrize("kind", INDEXED, ids=lambda kind: kind.name)
def test_a_missing_folder_is_noticed(kind: Kind, tmp_path: Path) -> None:
    miner = kind.make()
    miner.build(MemorySource(BANK[:500]), tmp_path)
    with pytest.raises(StorageError):
        miner.save(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", INDEXED, ids=lambda kind: kind.name)
def test_a_file_cut_short_or_of_another_bank_is_refused(kind: Kind, tmp_path: Path) -> None:
    miner = kind.make()
    miner.build(MemorySource(BANK[:500]), tmp_path)
    folder = tmp_path / "index"
    folder.mkdir()
    miner.save(folder)
    with pytest.raises(ArtifactDamaged, match="500"):
        kind.make().load(folder, MemorySource(np.tile(BANK[:500], (2, 1))))
    (file,) = folder.iterdir()
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(ArtifactDamaged, match="incomplete or damaged"):
        kind.make().load(folder, MemorySource(BANK[:500]))
