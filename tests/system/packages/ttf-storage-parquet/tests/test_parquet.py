"""The suite that ttf has for storages, and what is particular to Parquet."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from ttf import BadData, StorageError
from ttf.testing import StoreTests

from ttf_storage_parquet import _rows
from ttf_storage_parquet._store import ParquetStore
from ttf_storage_parquet._writer import ParquetWriter

Open = Callable[[Path], ParquetStore]

ROWS: NDArray[np.float32] = np.arange(60_000, dtype=np.float32).reshape(10_000, 6)


class TestParquet(StoreTests):
    name = "ttf-storage-parquet:parquet"  # `parquet` alone is a storage of ttf itself


def written(path: Path, **arrays: NDArray[np.float32]) -> Path:
    writer = ParquetWriter(str(path))
    for name, rows in arrays.items():
        array = writer.array(name, rows.shape, "float32")
        for start in range(0, len(rows), 999):
            array.append(rows[start : start + 999])
    writer.commit()
    return path


@pytest.fixture
def opened() -> Iterator[Open]:
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(contextlib.closing(ParquetStore(str(path))))


def test_one_array_is_a_file_that_others_read_and_several_are_a_folder(tmp_path: Path) -> None:
    one = written(tmp_path / "one.parquet", vectors=ROWS)
    two = written(tmp_path / "two.parquet", X_train=ROWS, X_val=ROWS[:7])
    assert one.is_file()
    table = pq.read_table(one)
    assert np.stack(table["vectors"].to_numpy()).tolist() == ROWS.tolist()
    assert sorted(p.name for p in two.iterdir()) == ["X_train.parquet", "X_val.parquet"]


@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.parametrize("after", [1, 2])
def test_file_and_folder_take_each_others_place(
    tmp_path: Path, before: int, after: int, opened: Open
) -> None:
    for count in (before, after):
        path = written(tmp_path / "x.parquet", **{f"a{i}": ROWS[:5] for i in range(count)})
    assert len(opened(path).names()) == after
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


def test_a_table_of_somebody_else_is_read_column_by_column(tmp_path: Path, opened: Open) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ROWS[:50].reshape(-1)), 6)
    table = pa.table({"ids": pa.array(range(50)), "vectors": vectors, "text": pa.array(["a"] * 50)})
    path = tmp_path / "bank.parquet"
    pq.write_table(table, path, row_group_size=16, compression="zstd")
    store = opened(path)
    assert store.names() == ["ids", "vectors", "text"]
    assert (
        store.source("vectors").gather(np.array([49, 0, 15, 16])) == ROWS[[49, 0, 15, 16]]
    ).all()
    assert store.source("ids").read(10, 20).tolist() == list(range(10, 20))
    assert store.describe("vectors")["stored"] == "zstd"
    assert "a column of string" in str(store.describe("text")["problem"])
    with pytest.raises(BadData, match="not of numbers"):
        store.source("text")
    before = store.source("vectors").fingerprint()
    pq.write_table(table.slice(1), path, row_group_size=16, compression="zstd")
    assert opened(path).source("vectors").fingerprint() != before


def test_rows_without_a_value_are_refused(tmp_path: Path, opened: Open) -> None:
    pq.write_table(pa.table({"ids": pa.array([1, None, 3])}), tmp_path / "x.parquet")
    with pytest.raises(BadData, match="null"):
        opened(tmp_path / "x.parquet").source("ids").read(0, 3)


def test_the_parts_of_a_data_set_are_no_container(tmp_path: Path, opened: Open) -> None:
    pq.write_to_dataset(pa.table({"vectors": pa.array([1.0])}), tmp_path / "x.parquet")
    with pytest.raises(BadData, match="each file is one array"):
        opened(tmp_path / "x.parquet")


def test_no_more_than_a_few_groups_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    path = written(tmp_path / "x.parquet", vectors=np.tile(ROWS, (8, 1)))
    monkeypatch.setattr(_rows, "KEPT_BYTES", 1 << 20)
    source = opened(path).source("vectors")
    ids = np.random.default_rng(0).integers(0, 80_000, 500)
    assert (source.gather(ids) == ROWS[ids % 10_000]).all()
    held = [rows.nbytes for rows in source._kept.values()]
    assert len(held) >= 2 and sum(held) <= 1 << 20


def test_a_bit_that_flipped_is_found(tmp_path: Path, opened: Open) -> None:
    path = written(tmp_path / "x.parquet", vectors=ROWS)
    raw = bytearray(path.read_bytes())
    raw[100_000] ^= 4
    path.write_bytes(raw)
    store = opened(path)
    (problem,) = store.verify()
    assert "damaged" in problem and "CRC" in problem
    with pytest.raises(BadData, match="damaged"):
        store.source("vectors").read(0, 10_000)


def test_a_file_of_another_array_with_a_copied_digest_is_found(
    tmp_path: Path, opened: Open
) -> None:
    path = written(tmp_path / "x.parquet", vectors=ROWS)
    digest = pq.read_metadata(path).metadata[b"ttf.digest"]
    table = pq.read_table(path).slice(0, 9_999).replace_schema_metadata({"ttf.digest": digest})
    pq.write_table(table, path)
    (problem,) = opened(path).verify()
    assert "digest differs" in problem


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


def test_a_full_disk_is_a_storage_error_and_leaves_nothing(tiny_disk: Path) -> None:
    writer = ParquetWriter(str(tiny_disk / "x.parquet"))
    with pytest.raises(StorageError, match="No space left"):
        writer.array("vectors", ROWS.shape, "float32").append(ROWS)
        writer.commit()
    writer.abort()
    assert list(tiny_disk.iterdir()) == []
