"""Strings in zarr are read whole, as zarr wrote them, and never as more than they may be."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from tests.kit.data_files import BANK, config, pairs
from zarr.storage import ZipStore

from ttf.data.convert import convert
from ttf.data.inspect import inspect, verify
from ttf.data.open_dataset import open_dataset
from ttf.data.text_arrays import text_of
from ttf.errors import BadData
from ttf.host.plugins import open_store
from ttf_storage import _zarr_text

NAMES = np.array([f"doc {row}" for row in range(39)] + ["é漢\U0001f600"])
KINDS: dict[str, tuple[Any, Any]] = {
    "any length": ("str", NAMES),
    "fixed length": ("U9", NAMES),
    "bytes": ("S9", np.array([f"doc {row}" for row in range(40)])),
}


def bank(store: Any, kind: str = "any length", version: Any = 3, **layout: Any) -> Any:
    dtype, names = KINDS[kind]
    with warnings.catch_warnings():  # zarr's own about types of strings; to read them has none
        warnings.simplefilter("ignore")
        group = zarr.open_group(store, mode="w", zarr_format=version)
        group.create_array("vectors", data=BANK, chunks=(7, 6))
        ids = group.create_array("ids", shape=(40,), dtype=dtype, **{"chunks": (7,), **layout})
        ids[:] = names.astype(dtype)
    return names


def read(uri: str | Path) -> NDArray[np.str_] | None:
    with contextlib.closing(open_store(str(uri))) as store:
        return text_of(store, "ids")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_a_folder_and_of_a_zip_are_those_that_zarr_wrote(
    kind: str, version: int, tmp_path: Path
) -> None:
    names = bank(str(tmp_path / "bank.zarr"), kind, version)
    archive = ZipStore(tmp_path / "bank.zarr.zip", mode="w")
    bank(archive, kind, version)
    archive.close()
    for uri in (tmp_path / "bank.zarr", tmp_path / "bank.zarr.zip", f"file://{tmp_path}/bank.zarr"):
        found = read(uri)
        assert found is not None and found.tolist() == names.tolist()


@pytest.mark.parametrize(
    "layout",
    [
        {"compressors": None},
        {"compressors": [zarr.codecs.GzipCodec()]},
        {"compressors": [zarr.codecs.BloscCodec()]},
        {"shards": (21,)},
    ],
    ids=["plain", "gzip", "blosc", "shards"],
)
def test_every_layout_of_strings_is_read(layout: dict[str, Any], tmp_path: Path) -> None:
    names = bank(str(tmp_path / "bank.zarr"), **layout)
    found = read(tmp_path / "bank.zarr")
    assert found is not None and found.tolist() == names.tolist()


def test_a_run_uses_them_as_ids_and_convert_keeps_them(tmp_path: Path) -> None:
    names = bank(str(tmp_path / "bank.zarr")).tolist()
    uri, copy = str(tmp_path / "bank.zarr"), str(tmp_path / "bank.npz")
    with open_dataset(config(tmp_path, pairs()).model_copy(update={"bank": uri})) as data:
        assert data.bank_ids is not None and data.bank_ids.tolist() == names
        assert data.notes == []
    assert inspect(uri).problems == [] and verify(uri).problems == []
    assert convert(uri, copy).left_out == []
    assert np.load(copy)["ids"].tolist() == names


def test_strings_as_vectors_are_refused_without_a_useless_command(tmp_path: Path) -> None:
    bank(str(tmp_path / "bank.zarr"))
    with (
        contextlib.closing(open_store(str(tmp_path / "bank.zarr"))) as store,
        pytest.raises(BadData, match="has the type <U, but it must be float32") as caught,
    ):
        store.source("ids")
    assert "convert" not in caught.value.hint


def test_a_type_that_numpy_does_not_know_is_named(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group.create_array("when", data=np.arange(9).astype("M8[ns]"))
    uri = str(tmp_path / "a.zarr")
    with pytest.raises(BadData, match="type 'numpy.datetime64'"):
        convert(uri, str(tmp_path / "a.npz"))
    assert inspect(uri).problems


def test_a_missing_chunk_of_strings_is_refused(tmp_path: Path) -> None:
    bank(str(tmp_path / "bank.zarr"))
    (tmp_path / "bank.zarr" / "ids" / "c" / "2").unlink()
    with pytest.raises(BadData, match="the chunk c/2 is missing"):
        read(tmp_path / "bank.zarr")


# -- strings of somebody who means harm


def test_a_chunk_that_claims_billions_of_strings_is_refused_before_it_is_decoded(
    tmp_path: Path,
) -> None:
    for compressors in (None, "auto"):
        path = tmp_path / f"{compressors}.zarr"
        bank(str(path), compressors=compressors)
        raw = (2**31).to_bytes(4, "little") + bytes(64)
        chunk = path / "ids" / "c" / "1"
        chunk.write_bytes(zstd(raw) if compressors else raw)
        with pytest.raises(BadData, match=r"it has 2,147,483,648 strings, but the array needs 7"):
            read(path)


def test_strings_that_inflate_without_end_are_refused(tmp_path: Path) -> None:
    bank(str(tmp_path / "bank.zarr"))
    bomb = zstd((7).to_bytes(4, "little") + bytes(65 << 20))
    (tmp_path / "bank.zarr" / "ids" / "c" / "1").write_bytes(bomb)
    with pytest.raises(BadData, match="decodes to more than 64 MB"):
        read(tmp_path / "bank.zarr")


def zstd(raw: bytes) -> bytes:
    from numcodecs import Zstd

    return bytes(Zstd(level=1).encode(raw))


def test_one_long_string_does_not_make_all_of_them_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_zarr_text, "_MOST_BYTES", 40 * 4 * 100)
    group = zarr.open_group(str(tmp_path / "bank.zarr"), mode="w")
    ids = group.create_array("ids", shape=(40,), dtype="str", chunks=(7,))
    ids[:] = np.array(["x" * (101 if row == 30 else 5) for row in range(40)])
    with pytest.raises(BadData, match=r"40 strings of up to 101 characters"):
        read(tmp_path / "bank.zarr")


@pytest.mark.parametrize("code", [0x110000, 0xD800])
def test_numbers_that_are_no_characters_are_refused(code: int, tmp_path: Path) -> None:
    path = tmp_path / "bank.zarr"
    bank(str(path), "fixed length", compressors=None)
    (path / "ids" / "c" / "1").write_bytes(np.full(7 * 9, code, "<u4").tobytes())
    with pytest.raises(BadData, match="not valid text"):
        read(path)


def test_numbers_behind_the_codec_of_strings_are_refused(tmp_path: Path) -> None:
    bank(str(tmp_path / "bank.zarr"), version=2)
    meta = tmp_path / "bank.zarr" / "vectors" / ".zarray"
    values = json.loads(meta.read_text()) | {"filters": [{"id": "vlen-utf8"}]}
    meta.write_text(json.dumps(values))
    with (
        contextlib.closing(open_store(str(tmp_path / "bank.zarr"))) as store,
        pytest.raises(BadData, match="the codec 'vlen-utf8', which ttf cannot read"),
    ):
        store.source("vectors")
