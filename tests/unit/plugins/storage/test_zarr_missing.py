"""A chunk that does not exist is the fill value or a lost file: refused, until the user says which."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from tests.conftest import Invoke
from tests.kit.data_files import BANK, config, pairs
from zarr.storage import ZipStore

from ttf.contracts import Store
from ttf.data.first_look import look
from ttf.data.open_dataset import open_dataset
from ttf.data.sources import open_ref
from ttf.errors import BadData, DataChanged
from ttf.host.plugins import open_store

ROWS: NDArray[np.float32] = np.arange(1, 201, dtype=np.float32).reshape(50, 4)
HOLED = ROWS.copy()
HOLED[20:30] = 0  # zarr does not write chunks that equal the fill value
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (5, 4), "compressors": None},
    "compressed": {"chunks": (5, 4)},
    "columns": {"chunks": (5, 2)},
    "shards": {"chunks": (5, 4), "shards": (20, 4), "compressors": None},
    "compressed shards": {"chunks": (5, 2), "shards": (20, 2)},
}
VERSIONS = [(name, version) for name in LAYOUTS for version in (2, 3)
            if version == 3 or "shards" not in name]  # fmt: skip


def folder(path: Path, version: Any = 3, rows: NDArray[Any] = HOLED, **layout: Any) -> str:
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    group.create_array("vectors", data=rows, **layout)
    return str(path)


def archive(path: Path, version: Any = 3, rows: NDArray[Any] = HOLED, **layout: Any) -> str:
    uri = f"{path}.zip"
    store = ZipStore(uri, mode="w")
    zarr.open_group(store, mode="w", zarr_format=version).create_array(
        "vectors", data=rows, **layout
    )
    store.close()
    return uri


def address(path: Path, version: Any = 3, rows: NDArray[Any] = HOLED, **layout: Any) -> str:
    return f"file://{folder(path, version, rows, **layout)}"


@contextmanager
def filled(uri: str) -> Iterator[tuple[Store, list[str]]]:
    said: list[str] = []
    with closing(open_store(uri, missing="fill", say=said.append)) as store:
        yield store, said


def refusal(uri: str) -> BadData:
    with closing(open_store(uri)) as store, pytest.raises(BadData) as caught:
        source = store.source("vectors")
        source.gather(np.arange(50))  # of shards behind a URL, only what is read is known
    return caught.value


@pytest.mark.parametrize("write", [folder, archive, address])
@pytest.mark.parametrize(("layout", "version"), VERSIONS)
def test_it_is_refused_with_both_readings_and_filled_if_the_user_says_so(
    layout: str, version: int, write: Callable[..., str], tmp_path: Path
) -> None:
    uri = write(tmp_path / "a.zarr", version, **LAYOUTS[layout])
    error = refusal(uri)
    assert "nothing but the fill value 0" in str(error) and "they were lost" in str(error)
    assert "--set data.missing=fill" in error.hint
    assert error.hint.endswith("--missing-is-fill")
    with filled(uri) as (store, said):
        source = store.source("vectors")
        np.testing.assert_array_equal(source.gather(np.arange(-50, 0)), HOLED)
        np.testing.assert_array_equal(source.read(18, 33), HOLED[18:33])
        assert list(store.verify()) == []
        store.check_unchanged()
        if not (write is address and "shards" in layout):
            [text] = said
            count = "4 of 20" if layout in ("columns", "compressed shards") else "2 of 10"
            assert f"{count} chunks do not exist" in text
            assert "as the fill value 0, as you asked" in text


@pytest.mark.parametrize("write", [folder, archive, address])
def test_a_store_without_missing_chunks_is_read_without_a_word(
    write: Callable[..., str], tmp_path: Path
) -> None:
    with filled(write(tmp_path / "a.zarr", rows=ROWS, chunks=(7, 3), shards=(21, 3))) as (
        store,
        said,
    ):
        np.testing.assert_array_equal(store.source("vectors").read(0, 50), ROWS)
        assert said == []


def test_a_chunk_lost_while_the_store_is_open_is_not_read_as_zeros(tmp_path: Path) -> None:
    uri = folder(tmp_path / "a.zarr", rows=ROWS, chunks=(5, 4))
    with closing(open_store(uri)) as store:
        source = store.source("vectors")
        source.gather(np.array([1]))
        (tmp_path / "a.zarr" / "vectors" / "c" / "4" / "0").unlink()
        with pytest.raises(BadData, match="the chunk c/4/0 is missing"):
            source.gather(np.array([22]))


def test_a_missing_chunk_that_comes_back_is_another_array(tmp_path: Path) -> None:
    uri = folder(tmp_path / "a.zarr", rows=ROWS, chunks=(5, 4))
    lost = tmp_path / "a.zarr" / "vectors" / "c" / "4" / "0"
    whole = lost.read_bytes()
    lost.unlink()
    with filled(uri) as (store, _):
        before = store.source("vectors").fingerprint()
        lost.write_bytes(whole)
        with pytest.raises(DataChanged, match="c/4/0 did not exist"):
            store.check_unchanged()
    with closing(open_store(uri)) as store:
        assert store.source("vectors").fingerprint() != before


def test_the_fingerprint_knows_which_chunk_is_missing(tmp_path: Path) -> None:
    prints = set()
    for number in range(3):
        same = np.ones((15, 2), np.float32)
        uri = folder(tmp_path / f"{number}.zarr", rows=same, chunks=(5, 2), compressors=None)
        (Path(uri) / "vectors" / "c" / str(number) / "0").unlink()
        with filled(uri) as (store, _):
            prints.add(store.source("vectors").fingerprint())
    assert len(prints) == 3


def test_a_fill_value_that_is_no_number_is_no_way_out(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[20:30] = np.nan
    uri = folder(tmp_path / "a.zarr", rows=rows, chunks=(5, 4), fill_value=np.nan)
    error = refusal(uri)
    assert "fill value NaN" in str(error) and "fill" not in error.hint
    with filled(uri) as (store, _):
        assert np.isnan(store.source("vectors").read(20, 30)).all()


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_null_is_read_as_zero_as_zarrita_means_it(compressors: Any, tmp_path: Path) -> None:
    for name, rows in (("whole", ROWS), ("holed", HOLED)):
        path = tmp_path / f"{name}.zarr"
        uri = folder(path, rows=rows, chunks=(5, 4), compressors=compressors)
        meta = path / "vectors" / "zarr.json"
        meta.write_text(json.dumps(json.loads(meta.read_text()) | {"fill_value": None}))
        with filled(uri) as (store, _):
            np.testing.assert_array_equal(store.source("vectors").read(0, 50), rows)
    assert "the fill value 0," in str(refusal(str(tmp_path / "holed.zarr")))


@pytest.mark.parametrize("write", [folder, archive])
def test_an_index_of_big_endian_numbers_is_read(write: Callable[..., str], tmp_path: Path) -> None:
    codec = zarr.codecs.ShardingCodec(
        chunk_shape=(5, 4),
        codecs=[zarr.codecs.BytesCodec()],
        index_codecs=[zarr.codecs.BytesCodec(endian="big"), zarr.codecs.Crc32cCodec()],
    )
    whole = write(
        tmp_path / "a.zarr", rows=ROWS, chunks=(20, 4), serializer=codec, compressors=None
    )
    with closing(open_store(whole)) as store:
        np.testing.assert_array_equal(store.source("vectors").read(0, 50), ROWS)
    holed = write(tmp_path / "b.zarr", chunks=(20, 4), serializer=codec, compressors=None)
    assert "2 of 10 chunks do not exist" in str(refusal(holed))


@pytest.mark.parametrize("missing", ["refuse", "fill"])
@pytest.mark.parametrize("write", [folder, archive, address])
def test_a_shape_that_claims_endless_chunks_is_refused_at_once(
    write: Callable[..., str], missing: str, tmp_path: Path
) -> None:
    def claim(group: Any) -> None:
        group.create_array("vectors", shape=(1 << 46, 1 << 10), chunks=(1, 1), dtype="f4")

    path = tmp_path / "a.zarr"
    if write is archive:
        store = ZipStore(f"{path}.zip", mode="w")
        claim(zarr.open_group(store, mode="w"))
        store.close()
        uri = f"{path}.zip"
    else:
        claim(zarr.open_group(str(path), mode="w"))
        uri = f"file://{path}" if write is address else str(path)
    began = time.process_time()
    with (
        closing(open_store(uri, missing=missing)) as found,
        pytest.raises(BadData, match="more than 20,000 others|chunks, but ttf reads"),
    ):
        found.source("vectors")
    assert time.process_time() - began < 8


def test_training_data_is_filled_for_the_run_and_for_its_workers(tmp_path: Path) -> None:
    bank = BANK.copy()
    bank[8:16] = 0
    files = config(tmp_path, pairs())
    uri = folder(tmp_path / "bank.zarr", rows=bank, chunks=(4, BANK.shape[1]))
    files = files.model_copy(update={"bank": uri, "missing": "fill"})
    with open_dataset(files) as data:
        assert any("2 of 10 chunks do not exist" in note for note in data.notes)
        with open_ref(data.bank_at) as seen_by_a_worker:
            np.testing.assert_array_equal(seen_by_a_worker.source.read(0, 40), bank)
        assert any("are zero" in remark for remark in look(data))
    with pytest.raises(BadData, match="do not exist"):
        open_dataset(files.model_copy(update={"missing": "refuse"}))


def test_convert_writes_a_whole_copy(tmp_path: Path, invoke: Invoke) -> None:
    uri, out = folder(tmp_path / "a.zarr", chunks=(5, 4)), tmp_path / "a.npz"
    refused = invoke(["data", "convert", uri, str(out)])
    assert refused.code == 3 and "--missing-is-fill" in refused.err and not out.exists()
    done = invoke(["data", "convert", uri, str(out), "--missing-is-fill"])
    assert done.code == 0 and "2 of 10 chunks do not exist" in done.err
    np.testing.assert_array_equal(np.load(out)["vectors"], HOLED)


def test_a_store_that_knows_no_fill_value_is_opened_as_ever(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=ROWS)
    with filled(str(tmp_path / "a.npz")) as (store, said):
        np.testing.assert_array_equal(store.source("vectors").read(0, 50), ROWS)
        assert said == []
