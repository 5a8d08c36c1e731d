"""Hints change when a row is read, never what is in it; many files are one matrix."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from ttf.data.sources import StackedRows
from ttf.data.vectors import RowView, UnitRows, on_disk, will_need
from ttf.errors import DataChanged
from ttf.host.plugins import open_store
from ttf_storage import _zarr_region
from ttf_storage._zarr_region import Region

ROWS, WIDTH = 900, 768
VALUES = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
KINDS = ("npz", "chunks", "shards", "a few maps at a time")


def store_of(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "npz":
        np.savez(folder / "bank.npz", vectors=VALUES)
        return str(folder / "bank.npz")
    if kind == "a few maps at a time":
        monkeypatch.setattr(_zarr_region, "_LARGEST", 0)
    shards = (70, WIDTH) if kind == "shards" else None
    group = zarr.open_group(str(folder / "bank.zarr"), mode="w")
    group.create_array(
        "vectors", data=VALUES, chunks=(7, WIDTH), shards=shards, compressors=None
    )  # fmt: skip
    return str(folder / "bank.zarr")


def evict(uri: str) -> None:
    """Clean pages leave the page cache, so that the next gather meets a disk."""
    paths = [Path(uri)] if Path(uri).is_file() else [p for p in Path(uri).rglob("*") if p.is_file()]
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def some_ids(seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-ROWS, ROWS, 60)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to evict a file")
@pytest.mark.parametrize("kind", KINDS)
def test_gathers_are_right_cold_warm_and_hinted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = store_of(kind, tmp_path, monkeypatch)
    for round_ in range(3):
        evict(uri)
        store = open_store(uri)
        source = store.source("vectors")
        out = np.empty((60, WIDTH), np.float32)
        for seed in range(12):
            ids = some_ids(seed + 100 * round_)
            will_need(source, some_ids(seed + 100 * round_ + 1))
            np.testing.assert_array_equal(source.gather(ids, out), VALUES[ids])
            assert on_disk(source) in (True, False)
        store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_hints_pass_through_views_and_are_checked_like_gathers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(store_of(kind, tmp_path, monkeypatch))
    source = store.source("vectors")
    stacked = StackedRows([source, UnitRows(source)])
    view = RowView(stacked, np.array([0, 1500, 3]))
    none: list[int] = []
    for ids in ([0, 2, -1], none, [1, 1]):
        will_need(view, np.array(ids, np.int64))
    with pytest.raises(IndexError):
        will_need(source, np.array([ROWS]))
    assert view.gather(np.array([2])).tolist() == VALUES[[3]].tolist()
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_many_threads_gather_from_one_source(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(store_of(kind, tmp_path, monkeypatch))
    source = store.source("vectors")
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for turn in range(20):
            ids = some_ids(seed * 100 + turn)
            if not (source.gather(ids) == VALUES[ids]).all():
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert not wrong


def test_files_side_by_side_hold_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(store_of("chunks", tmp_path, monkeypatch))
    source = store.source("vectors")
    before = len(list(Path("/dev/fd").iterdir()))
    np.testing.assert_array_equal(source.gather(np.arange(ROWS)), VALUES)
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert isinstance(source._rows, Region)  # type: ignore[attr-defined]
    store.close()
    with pytest.raises(ValueError, match="closed"):
        source.gather(np.array([0]))


def test_views_outlive_the_store_and_the_places_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = _zarr_region._maps._left
    store = open_store(store_of("shards", tmp_path, monkeypatch))
    view = store.source("vectors").read(3, 60)
    assert not view.flags.owndata and not view.flags.writeable
    assert _zarr_region._maps._left < left
    store.close()
    del store
    np.testing.assert_array_equal(view, VALUES[3:60])
    del view
    assert _zarr_region._maps._left == left


def test_a_chunk_file_replaced_before_it_is_mapped_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = store_of("chunks", tmp_path, monkeypatch)
    store = open_store(uri)
    source = store.source("vectors")
    source.gather(np.array([0]))
    chunk = Path(uri, "vectors", "c", "5", "0")
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")
    with pytest.raises(DataChanged):
        source.gather(np.array([36]))
    store.close()


def test_when_the_process_has_too_many_maps_files_are_mapped_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = store_of("chunks", tmp_path, monkeypatch)
    monkeypatch.setattr(_zarr_region._maps, "_left", 3)
    store = open_store(uri)
    source = store.source("vectors")
    assert not isinstance(source._rows, Region)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(source.gather(some_ids(1)), VALUES[some_ids(1)])
    store.close()
