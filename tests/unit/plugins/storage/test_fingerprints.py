"""A fingerprint is of the data: copies have it in common, other data has another."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from ttf.host.plugins import create_store, open_store
from ttf_storage import _content_sample

ROWS: NDArray[np.float32] = np.random.default_rng(0).standard_normal((40_000, 8)).astype(np.float32)


def npz(path: Path, rows: NDArray[np.float32]) -> Path:
    return _ours(path.with_suffix(".npz"), rows)


def npy(path: Path, rows: NDArray[np.float32]) -> Path:
    np.save(path.with_suffix(".npy"), rows)
    return path.with_suffix(".npy")


def sharded(path: Path, rows: NDArray[np.float32]) -> Path:
    return _ours(path.with_suffix(".zarr"), rows)


def compressed(path: Path, rows: NDArray[np.float32]) -> Path:
    return _zarr(path, rows, compressors="auto", chunks=(2000, 8))


def many_chunks(path: Path, rows: NDArray[np.float32]) -> Path:
    return _zarr(path, rows, compressors=None, chunks=(300, 8))


def _ours(path: Path, rows: NDArray[np.float32]) -> Path:
    writer = create_store(str(path))
    writer.array("vectors", rows.shape, "float32").append(rows)
    writer.commit()
    return path


def _zarr(path: Path, rows: NDArray[np.float32], **layout: object) -> Path:
    path = path.with_suffix(".zarr")
    group = zarr.open_group(str(path), mode="w")
    group.create_array("vectors", data=rows, **layout)
    return path


def fingerprint(path: Path) -> str:
    store = open_store(str(path))
    try:
        return store.source("vectors").fingerprint()
    finally:
        store.close()


Make = Callable[[Path, NDArray[np.float32]], Path]
EVERY = pytest.mark.parametrize("make", [npz, npy, sharded, compressed, many_chunks])


@EVERY
def test_a_copy_keeps_the_fingerprint(make: Make, tmp_path: Path) -> None:
    """With other inodes, other times and in another folder."""
    original = make(tmp_path / "bank", ROWS)
    elsewhere = tmp_path / "there" / original.name
    elsewhere.parent.mkdir()
    if original.is_dir():
        shutil.copytree(original, elsewhere, copy_function=shutil.copyfile)
    else:
        shutil.copyfile(original, elsewhere)
    for path in [elsewhere, *elsewhere.rglob("*")]:
        os.utime(path, (time.time() - 9999, time.time() - 9999))
    assert fingerprint(elsewhere) == fingerprint(original)


@EVERY
@pytest.mark.parametrize("row", [0, -1])
def test_another_first_or_last_value_gives_another(make: Make, row: int, tmp_path: Path) -> None:
    changed = ROWS.copy()
    changed[row, 3] += 1
    here, there = make(tmp_path / "a", ROWS), make(tmp_path / "b", changed)
    assert fingerprint(here) != fingerprint(there)


@EVERY
def test_another_number_of_rows_gives_another(make: Make, tmp_path: Path) -> None:
    here, there = make(tmp_path / "a", ROWS), make(tmp_path / "b", ROWS[:-1])
    assert fingerprint(here) != fingerprint(there)


@EVERY
def test_any_value_of_a_small_array_counts(make: Make, tmp_path: Path) -> None:
    small = ROWS[:5000]
    changed = small.copy()
    changed[np.random.default_rng(1).integers(5000), 5] *= 2
    here, there = make(tmp_path / "a", small), make(tmp_path / "b", changed)
    assert fingerprint(here) != fingerprint(there)


@pytest.mark.parametrize("count", [1, 3, 64, 500])
def test_what_is_read_is_bounded_and_holds_both_ends(count: int, tmp_path: Path) -> None:
    """Sparse files of 10 MB, each with its number at the start and at the end."""
    paths = [tmp_path / str(n) for n in range(count)]
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            file.write(number.to_bytes(4))
            file.truncate(10_000_000 - 4)
            file.seek(0, os.SEEK_END)
            file.write(number.to_bytes(4))
    pieces = list(_content_sample.sampled(paths, [10_000_000] * count))
    assert sum(map(len, pieces)) <= 1 << 20
    for number in (0, count - 1):
        assert any(p.startswith(number.to_bytes(4)) for p in pieces)
        assert any(p.endswith(number.to_bytes(4)) for p in pieces)
