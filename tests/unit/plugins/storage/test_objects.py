"""Folders of shards on this machine: what is written, what a manifest may say, what an address may not."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.data.convert import convert
from ttf.data.text_arrays import text_of
from ttf.errors import BadData, ConfigError, PluginUnavailable
from ttf.host.plugins import create_store, open_store, storage_for
from ttf_storage import _objects_writer
from ttf_storage._objects_remote import split_address
from ttf_storage._objects_writer import rows_per_shard

ROWS = np.random.default_rng(3).standard_normal((5000, 24)).astype(np.float32)
MANIFEST = "objects.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of eight shards of vectors, and two of ids."""
    monkeypatch.setattr(_objects_writer, "SHARD_BYTES", 1 << 16)
    writer = create_store(str(tmp_path / "bank.objects"))
    array = writer.array("vectors", ROWS.shape, "float32")
    for start in range(0, len(ROWS), 700):
        array.append(ROWS[start : start + 700])
    text: Any = writer
    text.text_array("ids", np.array([f"id {n}" for n in range(len(ROWS))]))
    writer.commit()
    return tmp_path / "bank.objects"


def test_shards_have_whole_rows_and_a_name_by_their_content(folder: Path) -> None:
    about = json.loads((folder / MANIFEST).read_text())
    shards = about["arrays"]["vectors"]["shards"]
    assert about["format"] == "ttf-objects/1" and len(shards) == 8
    assert {path.name for path in folder.iterdir()} == {
        MANIFEST,
        *(s["file"] for a in about["arrays"].values() for s in a["shards"]),
    }
    for shard in shards:
        assert shard["sha256"][:16] in shard["file"]
        assert (folder / shard["file"]).stat().st_size == shard["bytes"] == shard["rows"] * 96


def test_shards_of_whole_pages_are_read_as_one_array(folder: Path) -> None:
    source = open_store(str(folder)).source("vectors")
    whole = source.read(0, len(ROWS))
    assert not whole.flags.owndata and not whole.flags.writeable
    assert whole.__array_interface__["data"][0] % (2 << 20) == 0  # where huge pages may begin
    np.testing.assert_array_equal(whole, ROWS)


@pytest.mark.parametrize("row_bytes", [1, 7, 96, 3072, 307_200, 4 * 1009, 4 * 5003, 1 << 28])
def test_a_shard_is_about_as_large_as_it_should_be(row_bytes: int) -> None:
    size = rows_per_shard(row_bytes) * row_bytes
    assert (64 << 20) <= size <= (256 << 20)


def test_strings_come_back(folder: Path) -> None:
    ids = text_of(open_store(str(folder)), "ids")
    assert ids is not None and ids[-1] == "id 4999" and len(ids) == 5000


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_same_vectors_have_the_fingerprint_of_an_npz_file(tmp_path: Path, dtype: str) -> None:
    from ttf.data.vectors import parse_dtype

    np.savez(tmp_path / "by-numpy.npz", vectors=ROWS)
    for name in ("bank.npz", "bank.objects"):
        convert(str(tmp_path / "by-numpy.npz"), str(tmp_path / name), dtype=parse_dtype(dtype))
    names = ["bank.npz", "bank.objects", *(["by-numpy.npz"] if dtype == "f32" else [])]
    stores = [open_store(str(tmp_path / name)) for name in names]
    assert len({store.source("vectors").fingerprint() for store in stores}) == 1
    for store in stores:
        store.close()


def test_a_flipped_bit_is_found_by_verify(folder: Path) -> None:
    shard = max(folder.glob("*.bin"), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[1000] ^= 4
    shard.write_bytes(data)
    problems = list(open_store(str(folder)).verify())
    assert len(problems) == 1 and shard.name in problems[0] and "is damaged" in problems[0]


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / MANIFEST
    about = json.loads(path.read_text())
    change(about["arrays"]["vectors"])
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a["shards"][0].update(file="../../etc/passwd"),
        lambda a: a["shards"][0].update(file=".hidden"),
        lambda a: a["shards"][0].update(sha256="0" * 63),
        lambda a: a["shards"][0].update(bytes=5),
        lambda a: a["shards"][0].update(rows=0, bytes=0),
        lambda a: a["shards"][3].update(rows=1, bytes=96),
        lambda a: a["shards"].pop(),
        lambda a: a.update(shape=[5000, -24]),
        lambda a: a.update(shape=[1 << 61, 1 << 61]),
        lambda a: a.update(shape=5000),
        lambda a: a.update(dtype="object"),
        lambda a: a.update(shards="many"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    changed(folder, change)
    with pytest.raises(BadData, match=r"objects\.json is damaged"):
        open_store(str(folder))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}', "[" * 100_000])
def test_a_file_that_is_no_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(BadData, match=r"objects\.json"):
        open_store(str(folder))


def test_a_folder_without_a_shard_or_a_manifest_is_refused(folder: Path) -> None:
    next(iter(sorted(folder.glob("*.bin")))).unlink()
    with pytest.raises(BadData, match=r"00000-.*\.bin"):
        open_store(str(folder)).source("vectors")
    (folder / MANIFEST).unlink()
    with pytest.raises(BadData, match=r"has no objects\.json"):
        open_store(str(folder))


def test_a_link_to_a_file_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    shard = next(iter(sorted(folder.glob("*.bin"))))
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadData, match="symbolic link"):
        open_store(str(folder)).source("vectors")


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "storage"),
    [
        ("s3://bucket/set/bank", "objects"),
        ("gs://bucket/bank/", "objects"),
        ("https://host/bank", "objects"),
        ("s3://bucket/bank#sha256=" + "a" * 64, "objects"),
        ("s3://bucket/bank.objects", "objects"),
        ("s3://bucket/bank.zarr", "zarr"),
        ("http://host/bank.zarr/", "zarr"),
    ],
)
def test_an_address_is_one_of_shards_unless_it_ends_otherwise(uri: str, storage: str) -> None:
    assert storage_for(uri) == storage


@pytest.mark.parametrize(
    "uri",
    ["s3://me:hunter2@bucket/bank", "https://host/bank?token=hunter2", "https://hunter2@host/b"],
)
def test_an_address_with_a_secret_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        split_address(uri)
    assert "hunter2" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("uri", ["s3://b/x#sha256=12", "s3://b/x#v1", "s3:///x", "ftp://b/x"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        split_address(uri)


def test_without_obstore_the_line_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTF_HOME", str(tmp_path))
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "obstore" else find(name, *a)
    )
    with pytest.raises(PluginUnavailable) as caught:
        open_store("s3://bucket/bank")
    assert caught.value.hint == 'pip install "twotower[objects]"'


def test_nothing_is_written_to_an_address() -> None:
    with pytest.raises(ConfigError, match="on this machine only") as caught:
        create_store("s3://bucket/bank.objects")
    assert "upload" in caught.value.hint
