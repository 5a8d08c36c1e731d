"""Zarr in a zip file: as zarr's own ZipStore writes it and as people zip a folder, with limits."""

from __future__ import annotations

import contextlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.storage import ZipStore

from ttf.errors import BadData, ConfigError, DataChanged
from ttf.host.plugins import open_store, storage_for
from ttf_storage import _zarr_archive

ROWS: NDArray[np.float32] = np.random.default_rng(3).standard_normal((50, 4)).astype(np.float32)
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (7, 4), "compressors": None},
    "compressed": {"chunks": (7, 3)},
    "shards": {"chunks": (5, 4), "shards": (20, 4)},
}


def group(store: Any, rows: NDArray[Any] = ROWS, **layout: Any) -> None:
    zarr.open_group(store, mode="w").create_array("vectors", data=rows, **layout)


def written(path: Path, rows: NDArray[Any] = ROWS, **layout: Any) -> str:
    store = ZipStore(path, mode="w")
    group(store, rows, **layout)
    store.close()
    return str(path)


def rows_of(uri: str | Path) -> NDArray[Any]:
    with contextlib.closing(open_store(str(uri))) as store:
        found = store.source("vectors").gather(np.arange(50))
        assert list(store.verify()) == []
        return found


@pytest.mark.parametrize("name", ["bank.zarr.zip", "bank.zip", "BANK.ZIP"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_zarr_writes_is_read(layout: str, name: str, tmp_path: Path) -> None:
    uri = written(tmp_path / name, **LAYOUTS[layout])
    assert storage_for(uri) == "zarr"
    np.testing.assert_array_equal(rows_of(uri), ROWS)


@pytest.mark.parametrize("with_its_folder", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_that_somebody_zipped_is_read(
    layout: str, with_its_folder: bool, tmp_path: Path
) -> None:
    group(str(tmp_path / "bank.zarr"), **LAYOUTS[layout])
    where = (tmp_path, "bank.zarr") if with_its_folder else (tmp_path / "bank.zarr", ".")
    uri = shutil.make_archive(str(tmp_path / "packed"), "zip", *where)
    np.testing.assert_array_equal(rows_of(uri), ROWS)


def test_a_zip_file_of_something_else_is_not_taken_for_zarr(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("letters/one.txt", "x")
        archive.writestr("two/zarr.json/x", "x")
    (tmp_path / "no.zip").write_bytes(b"x" * 100)
    for name in ("other.zip", "no.zip", "none.zip"):
        with pytest.raises(ConfigError, match="no storage plugin reads"):
            storage_for(str(tmp_path / name))


def test_another_content_has_another_fingerprint(tmp_path: Path) -> None:
    prints = set()
    for row in (None, 0, 17, 49):
        rows = ROWS.copy()
        if row is not None:
            rows[row, 2] += 1
        uri = written(tmp_path / f"{row}.zip", rows, chunks=(50, 4), compressors=None)
        with contextlib.closing(open_store(uri)) as store:
            prints.add(store.source("vectors").fingerprint())
    assert len(prints) == 4


def test_a_zip_file_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    uri = written(tmp_path / "bank.zip", chunks=(7, 4))
    with contextlib.closing(open_store(uri)) as store:
        store.source("vectors")
        store.check_unchanged()
        written(tmp_path / "other.zip", ROWS * 2, chunks=(7, 4))
        (tmp_path / "other.zip").replace(uri)
        with pytest.raises(DataChanged, match="replaced"):
            store.check_unchanged()


def test_no_file_stays_open(tmp_path: Path) -> None:
    uri = written(tmp_path / "bank.zip", chunks=(7, 4))
    before = len(list(Path("/dev/fd").iterdir()))
    rows_of(uri)
    assert len(list(Path("/dev/fd").iterdir())) == before


# -- zip files of somebody who means harm


def packed(path: Path, method: int) -> str:
    group(str(path / "bank.zarr"), chunks=(7, 4), compressors=None)
    with zipfile.ZipFile(path / "bank.zip", "w", method) as archive:
        for file in sorted((path / "bank.zarr").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(path / "bank.zarr"))
    return str(path / "bank.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_method_whose_memory_the_file_chooses_is_refused(method: int, tmp_path: Path) -> None:
    uri = packed(tmp_path, method)
    with pytest.raises(BadData, match="compressed with another method than deflate") as caught:
        rows_of(uri)
    assert "without compression" in caught.value.hint


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    uri = packed(tmp_path, zipfile.ZIP_STORED)
    raw = bytearray(Path(uri).read_bytes())
    for at in range(len(raw) - 46):
        if raw[at : at + 4] == b"PK\x01\x02" and b"/c/3" in raw[at + 46 : at + 70]:
            raw[at + 8] |= 1
    Path(uri).write_bytes(bytes(raw))
    with pytest.raises(BadData, match="c/3/0 is encrypted"):
        rows_of(uri)


def test_a_large_deflated_member_is_refused_before_it_is_inflated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = packed(tmp_path, zipfile.ZIP_DEFLATED)
    np.testing.assert_array_equal(rows_of(uri), ROWS)
    monkeypatch.setattr(_zarr_archive, "_MOST_DEFLATED_BYTES", 7 * 4 * 4 - 1)
    with pytest.raises(BadData, match="is compressed in the zip file"):
        rows_of(uri)


@pytest.mark.parametrize("name", ["../zarr.json", "/etc/zarr.json", "vectors/../../secret"])
def test_members_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    uri = written(tmp_path / "bank.zip", chunks=(7, 4))
    with zipfile.ZipFile(uri, "a") as archive:
        archive.writestr(name, "{}")
    with pytest.raises(BadData, match="a path outside the archive"):
        rows_of(uri)
