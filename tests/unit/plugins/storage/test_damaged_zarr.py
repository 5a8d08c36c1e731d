"""Bad zarr stores get one message that names the chunk or file; holes are never read as zeros."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.errors import BadData, DataChanged, TtfError
from ttf.host.plugins import create_store, open_store

ROWS: NDArray[np.float32] = np.arange(1, 151, dtype=np.float32).reshape(50, 3)


def sharded(path: Path, **layout: Any) -> Path:
    layout = {"chunks": (5, 3), "shards": (20, 3), "compressors": None, **layout}
    zarr.open_group(str(path), mode="w").create_array("vectors", data=ROWS, **layout)
    return path


def plain(path: Path, version: Any = 3) -> Path:
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    group.create_array("vectors", data=ROWS, chunks=(20, 3), compressors=None)
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    meta = path / "vectors" / "zarr.json"
    values = json.loads(meta.read_text())
    change(values)
    meta.write_text(json.dumps(values))


def shard(path: Path, number: int = 1) -> Path:
    return path / "vectors" / "c" / str(number) / "0"


def message(path: Path) -> str:
    store = open_store(str(path))
    with pytest.raises(BadData) as caught:
        store.source("vectors")
    assert store.describe("vectors")["problem"] == str(caught.value)
    store.close()
    return str(caught.value)


def test_a_missing_shard_is_bad_data_and_not_zeros(tmp_path: Path) -> None:
    path = sharded(tmp_path / "a.zarr")
    shard(path).unlink()
    assert "the shard c/1/0 is missing (rows 20 to 39)" in message(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_missing_chunk_is_bad_data_and_not_zeros(version: int, tmp_path: Path) -> None:
    path = plain(tmp_path / "a.zarr", version)
    key = "1.0" if version == 2 else "c/1/0"
    (path / "vectors" / key).unlink()
    assert f"the chunk {key} is missing (rows 20 to 39)" in message(path)


@pytest.mark.parametrize("damage", [-0.0, None, 2, "3"])
def test_a_document_of_another_format_is_not_read_as_this_one(tmp_path: Path, damage: Any) -> None:
    path = plain(tmp_path / "a.zarr")
    edit(path, lambda values: values.update(zarr_format=damage))
    assert f"zarr_format is {damage!r}, not 3" in message(path)


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_a_hole_in_a_shard_is_bad_data(compressors: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    group = zarr.open_group(str(path), mode="w")
    holed = ROWS.copy()
    holed[25:30] = 0  # zarr does not write chunks that equal the fill value
    group.create_array(
        "vectors", data=holed, chunks=(5, 3), shards=(20, 3), compressors=compressors
    )
    assert "chunk 1 of the shard c/1/0 is missing" in message(path)


def test_a_hole_in_a_store_behind_a_url_is_bad_data(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.zarr")
    shard(path).unlink()
    store = open_store(f"file://{path}")
    with pytest.raises(BadData, match="1 of 3 chunks do not exist"):
        store.source("vectors")
    store.close()


def test_a_truncated_chunk_is_named(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.zarr")
    os.truncate(shard(path), 100)
    assert "the chunk c/1/0 is truncated or damaged: it has 100 bytes" in message(path)


@pytest.mark.parametrize("size", [0, 10, 150, 300])
def test_a_truncated_shard_is_named(size: int, tmp_path: Path) -> None:
    path = sharded(tmp_path / "a.zarr")
    os.truncate(shard(path), size)
    assert "the shard c/1/0 is truncated" in message(path)


def test_an_index_that_points_outside_the_file_is_named(tmp_path: Path) -> None:
    bytes_only = [{"name": "bytes", "configuration": {"endian": "little"}}]
    path = sharded(tmp_path / "a.zarr")

    def no_checksum(values: dict[str, Any]) -> None:
        values["codecs"][0]["configuration"]["index_codecs"] = bytes_only

    edit(path, no_checksum)
    for number in range(3):
        raw = bytearray(shard(path, number).read_bytes()[:-4])
        raw[-64:-56] = (10**9).to_bytes(8, "little")
        shard(path, number).write_bytes(raw)
    assert "chunk 0 of the shard c/0/0 is truncated or damaged" in message(path)


def test_unreadable_metadata_and_types_are_named(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.zarr")
    meta = path / "vectors" / "zarr.json"
    whole = meta.read_text()
    meta.write_text(whole[:50])
    assert "zarr.json is truncated or damaged" in message(path)
    meta.write_text(whole.replace('"float32"', '"complex64"'))
    assert "has the type complex64, but it must be float32" in message(path)
    with pytest.raises(BadData, match="not a zarr group"):
        open_store(str(make_folder(tmp_path / "b.zarr")))


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("make", [plain, sharded])
def test_a_change_under_a_running_reader_is_named(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path / "a.zarr")
    store = open_store(str(path))
    source = store.source("vectors")
    source.gather(np.array([1]))
    store.check_unchanged()
    os.truncate(shard(path), 10)
    with pytest.raises(DataChanged, match=r"1/0 was truncated from \d+ to 10 bytes"):
        store.check_unchanged()
    with pytest.raises(DataChanged, match="was truncated"):
        source.gather(np.array([30]))
    store.close()


def test_many_chunk_files_are_read_with_few_open_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    rows = np.arange(300, dtype=np.int64)
    zarr.open_group(str(path), mode="w").create_array(
        "ids", data=rows + 1, chunks=(1,), compressors=None
    )
    store = open_store(str(path))
    before = open_files()
    found = store.source("ids").gather(rows[::-1])
    np.testing.assert_array_equal(found, rows[::-1] + 1)
    assert open_files() - before <= 48
    store.close()


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_written_group_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "a.zarr")
    for rows in (ROWS, ROWS * 2):
        writer = create_store(uri)
        writer.array("vectors", rows.shape, "float32").append(rows)
        writer.commit()
        np.testing.assert_array_equal(zarr.open_group(uri, mode="r")["vectors"][:], rows)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_lone_array_is_called_vectors(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "a.zarr"), data=ROWS)
    store = open_store(str(tmp_path / "a.zarr"))
    assert store.names() == ["vectors"]
    np.testing.assert_array_equal(store.source("vectors").gather(np.array([4])), ROWS[[4]])
    store.close()


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_damage_ends_in_a_named_error_or_in_rows_of_the_declared_shape(
    version: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp()
    model = base / f"model-{version}.zarr"
    if not model.exists():
        sharded(model) if version == 3 else plain(model, version)
    path = base / f"fuzz-{version}.zarr"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(model, path)
    victim = data.draw(st.sampled_from(sorted(p for p in path.rglob("*") if p.is_file())))
    raw = bytearray(victim.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))
    victim.write_bytes(bytes(raw[:cut]))
    try:
        store = open_store(str(path))
    except TtfError:
        return
    try:
        for name in store.names():
            store.describe(name)
            _read_or_refuse(store, name)
        list(store.verify())
    finally:
        store.close()


def _read_or_refuse(store: Any, name: str) -> None:
    try:
        source = store.source(name)
        rows = source.gather(np.arange(min(source.shape[0], 60)))
    except TtfError:
        return
    assert rows.shape[1:] == source.shape[1:]
