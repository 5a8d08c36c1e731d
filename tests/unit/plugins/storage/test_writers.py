"""What is written can be read by everybody, and nothing half-written is ever left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from ttf.contracts import DType, StoreWriter
from ttf.errors import ConfigError, StorageError
from ttf.host.plugins import create_store, open_store
from ttf_storage import _atomic_file, _folder_output, _zarr_writer

ROWS: NDArray[np.float32] = np.arange(3000, dtype=np.float32).reshape(1000, 3)
ENDINGS = ["npz", "npy", "zarr"]


def fill(writer: StoreWriter) -> None:
    array = writer.array("vectors", ROWS.shape, "float32")
    for start in range(0, 1000, 300):
        array.append(ROWS[start : start + 300])


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        writer = create_store(str(tmp_path / name))
        fill(writer)
        writer.commit()
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_member_has_one_fingerprint_wherever_it_lies_in_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", other=np.arange(5), vectors=ROWS)
    writer = create_store(str(tmp_path / "b.npz"))
    fill(writer)
    writer.commit()
    stores = [open_store(str(tmp_path / name)) for name in ("a.npz", "b.npz")]
    prints = {store.source("vectors").fingerprint() for store in stores}
    for store in stores:
        store.close()
    assert len(prints) == 1


def test_a_zarr_array_may_span_many_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_zarr_writer, "CHUNK_BYTES", 7 * 12)
    monkeypatch.setattr(_zarr_writer, "SHARD_BYTES", 7 * 12 * 10)
    uri = str(tmp_path / "bank.zarr")
    writer = create_store(uri)
    fill(writer)
    writer.commit()
    array = zarr.open_group(uri, mode="r")["vectors"]
    assert array.shards == (70, 3) and array.chunks == (7, 3)
    np.testing.assert_array_equal(array[:], ROWS)
    store = open_store(uri)
    ids = np.random.default_rng(0).integers(-1000, 1000, 200)
    np.testing.assert_array_equal(store.source("vectors").gather(ids), ROWS[ids])
    np.testing.assert_array_equal(store.source("vectors").read(65, 75), ROWS[65:75])
    store.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_visible_before_commit_nor_after_abort(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bank.{ending}"
    writer = create_store(str(path))
    fill(writer)
    assert not path.exists()
    writer.abort()
    assert list(tmp_path.iterdir()) == []
    writer = create_store(str(path))
    fill(writer)
    writer.commit()
    writer.abort()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_a_storage_error_and_leaves_nothing(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system call fails as it does on a full disk; everything above it is real."""
    room = 5000

    def write(fd: int, data: Any, real: Any = os.write) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room -= len(data)
        return int(real(fd, data[: max(1, len(data) // 2)]))

    writer = create_store(str(tmp_path / f"bank.{ending}"))
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageError, match="No space left on device"):
        fill(writer)
    monkeypatch.undo()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_that_is_not_there_is_a_storage_error(ending: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        create_store(str(tmp_path / "nowhere" / f"bank.{ending}"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_that_do_not_belong_to_the_array_are_refused(ending: str, tmp_path: Path) -> None:
    writer = create_store(str(tmp_path / f"bank.{ending}"))
    array = writer.array("vectors", (10, 3), "float32")
    for rows in (ROWS[:2].astype(np.float64), ROWS[:2, :2], ROWS[:11]):
        with pytest.raises(ValueError, match="the array 'vectors'"):
            array.append(rows)
    array.append(ROWS[:4])
    with pytest.raises(ValueError, match="has 4 of 10 rows"):
        writer.commit()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_an_npy_file_takes_one_array_that_numpy_knows(tmp_path: Path) -> None:
    cases: list[tuple[str, DType]] = [("a", "bfloat16"), ("b", "float32")]
    for wrong in cases:
        writer = create_store(str(tmp_path / "bank.npy"))
        with pytest.raises(ConfigError, match=r"a \.npy file cannot hold"):
            writer.array(wrong[0], (1, 2), wrong[1])
            writer.array("again", (1, 2), "float32")
    assert list(tmp_path.iterdir()) == []
    writer = create_store(str(tmp_path / "bank.npy"))
    fill(writer)
    writer.commit()
    np.testing.assert_array_equal(np.load(tmp_path / "bank.npy"), ROWS)


def test_a_zarr_array_cannot_leave_its_folder(tmp_path: Path) -> None:
    writer = create_store(str(tmp_path / "bank.zarr"))
    for name in ("../vectors", "a/b", "..", ""):
        with pytest.raises(ConfigError, match="is not a valid name of a zarr array"):
            writer.array(name, (1, 2), "float32")
    writer.abort()


@pytest.mark.parametrize(
    "uri", ["bank.zarr.zip", "BANK.ZARR.ZIP", "s3://bucket/bank.zarr", "https://host/bank.npz"]
)
def test_outputs_that_would_not_be_what_they_are_called_are_refused(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="written"):
        create_store(uri)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("before", ["fsync_dir", "rename", "nothing"])
def test_a_commit_that_is_broken_off_leaves_the_old_or_the_new(
    ending: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may raise anywhere in a commit; here at its most delicate calls."""
    path = tmp_path / f"bank.{ending}"
    for broken_off in (False, True):
        writer = create_store(str(path))
        fill(writer)
        if broken_off:
            _interrupt(before, monkeypatch)
            if before != "nothing":
                with pytest.raises(KeyboardInterrupt):
                    writer.commit()
        else:
            writer.commit()
    monkeypatch.undo()
    writer.abort()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    store = open_store(str(path))
    np.testing.assert_array_equal(store.source("vectors").read(0, 1000), ROWS)
    store.close()


def _interrupt(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    if call == "fsync_dir":
        monkeypatch.setattr(_atomic_file, "fsync_dir", interrupted)
        monkeypatch.setattr(_folder_output, "fsync_dir", interrupted)
    elif call == "rename":
        monkeypatch.setattr(Path, "replace", interrupted)
        real = Path.rename

        def rename(self: Path, target: Path) -> Path:
            """Setting the old group aside works; the new one does not take its place."""
            return real(self, target) if target.name.endswith("-old") else interrupted()  # type: ignore[func-returns-value,return-value]

        monkeypatch.setattr(Path, "rename", rename)
