"""Columns of Parquet and Arrow files are arrays, whoever wrote them; safetensors likewise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.config.schema import DataConfig
from ttf.data.convert import convert
from ttf.data.inspect import inspect, verify
from ttf.data.open_dataset import open_dataset
from ttf.data.vectors import from_float32
from ttf.errors import ArrayMissing, BadData, ConfigError, DataChanged
from ttf.host.plugins import create_store, open_store, storage_for

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((500, 6)).astype(np.float32)
ASKED = np.array([499, 0, 7, 7, -1, 250])


def lists(rows: Any, kind: Any = None) -> Any:
    return pa.array(list(rows), type=kind or pa.list_(pa.float32()))


def save(table: Any, path: Path, way: str) -> str:
    if way == "parquet":
        pq.write_table(table, path, row_group_size=120)
    elif way == "zstd":
        pq.write_table(table, path, compression="zstd", use_dictionary=True)
    elif way == "feather":
        feather.write_feather(table, path, compression="lz4", chunksize=120)
    elif way == "file":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=120)
    else:  # as the cache of Hugging Face datasets
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=120)
    return str(path)


WAYS = {"parquet": "t.parquet", "zstd": "t.pq", "feather": "t.feather", "file": "t.arrow",
        "stream": "s.arrow"}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_columns_of_others_are_read_by_name(way: str, tmp_path: Path) -> None:
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 6)
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(ROWS.reshape(500, 2, 3))
    table = pa.table(
        {
            "id": [f"d{n}" for n in range(500)],
            "text": ["a long text"] * 500,
            "list": lists(ROWS),
            "double": lists(ROWS.astype(np.float64), pa.list_(pa.float64())),
            "fixed": fixed,
            "steps": lists(ROWS.reshape(500, 2, 3).tolist(), pa.list_(pa.list_(pa.float32()))),
            "tensor": tensor,
            "in": pa.StructArray.from_arrays([fixed, pa.array(range(500))], ["vector", "row"]),
            "flag": pa.array([True, False] * 250),
        }
    )
    uri = save(table, tmp_path / WAYS[way], way)
    assert storage_for(uri) == "parquet"
    store = open_store(uri)
    for name in ("list", "double", "fixed", "in.vector", "steps", "tensor"):
        source = store.source(name)
        wanted = ROWS.reshape(500, 2, 3) if name in ("steps", "tensor") else ROWS
        assert (source.shape, source.dtype) == (wanted.shape, "float32")
        np.testing.assert_array_equal(source.gather(ASKED), wanted[ASKED])
        np.testing.assert_array_equal(source.read(100, 260), wanted[100:260])
    np.testing.assert_array_equal(store.source("in.row").read(119, 122), [119, 120, 121])
    assert store.source("flag").dtype == "uint8"
    assert store.text("id").tolist() == table["id"].to_pylist()  # type: ignore[attr-defined]
    assert store.left_out == ["text"]  # type: ignore[attr-defined]
    assert list(store.verify()) == []
    assert not inspect(uri).problems and "text is no array" in " ".join(inspect(uri).notes)
    with pytest.raises(BadData, match=r"'text' is a column of the type string"):
        store.source("text")
    with pytest.raises(ArrayMissing, match="fixd.*Did you mean 'fixed'"):
        store.source("fixd")
    store.close()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([[1.0, 2.0], [3.0], [4.0, 5.0]], r"row 1 has a list of 1 values, but other rows have 2"),
        ([[1.0, 2.0], None, [4.0, 5.0]], r"row 1 is missing"),
        ([[1.0, 2.0], [3.0, None], [4.0, 5.0]], r"row 1 has a number that is missing"),
    ],
)
def test_a_row_that_is_no_vector_is_named(column: Any, said: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"vectors": pa.array(column)}), tmp_path / "t.parquet")
    store = open_store(str(tmp_path / "t.parquet"))
    with pytest.raises(BadData, match=said):
        store.source("vectors").read(0, 3)
    assert len(list(store.verify())) == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uint16", [0, 1, 2**16 - 1]),
        ("uint32", [0, 1, 2**32 - 1]),
        ("uint64", [0, 1, 2**63 - 1]),
        ("int64", [-(2**63), 1, 2**63 - 1]),
    ],
)
def test_whole_numbers_of_every_type_stay_what_they_are(
    kind: str, values: list[int], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"ids": pa.array(values, kind)}), tmp_path / "t.parquet")
    store = open_store(str(tmp_path / "t.parquet"))
    assert store.source("ids").read(0, 3).tolist() == values
    store.close()


def test_a_number_that_does_not_fit_is_named(tmp_path: Path) -> None:
    column = pa.array([[1, 2], [3, 2**63]], pa.list_(pa.uint64()))
    pq.write_table(pa.table({"pos_train": column}), tmp_path / "t.parquet")
    store = open_store(str(tmp_path / "t.parquet"))
    with pytest.raises(BadData, match=r"row 1 has the number 9223372036854775808, .*too large"):
        store.source("pos_train").read(0, 2)
    store.close()


def test_a_table_without_an_array_says_what_its_columns_are(tmp_path: Path) -> None:
    table = pa.table({"vectors": [b"1234"] * 3, "text": ["a"] * 3})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadData, match="contains no arrays") as refused:
        convert(str(tmp_path / "t.parquet"), str(tmp_path / "t.npz"))
    assert "Its columns are vectors (binary), text (text)." in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("column", "named", "found", "said"),
    [
        ("sku", "sku", ["d0", "d1"], ""),
        ("ids", "ids", ["d0", "d1"], ""),
        ("sku", "sk", None, "has no array 'sk' (data.names.ids). Searches show row numbers."),
        ("day", "day", None, "is a column of the type date32[day], and ids are whole numbers"),
        ("sku", "ids", None, ""),
    ],
)
def test_ids_are_the_column_that_was_named_or_a_note_says_why_not(
    column: str, named: str, found: list[str] | None, said: str, tmp_path: Path
) -> None:
    values = pa.array([0, 1] * 20, pa.date32()) if column == "day" else [f"d{n}" for n in range(40)]
    bank = pa.table({"vectors": lists(ROWS[:40]), column: values})
    pq.write_table(bank, tmp_path / "bank.parquet")
    np.savez(tmp_path / "pairs.npz", X_train=ROWS[:40], pos_train=np.arange(40))
    files = {name: str(tmp_path / name) for name in ("pairs.npz", "bank.parquet")}
    names = {} if named == "ids" else {"ids": named}
    config = DataConfig(pairs=files["pairs.npz"], bank=files["bank.parquet"], names=names)
    with open_dataset(config) as data:
        assert (None if data.bank_ids is None else data.bank_ids[:2].tolist()) == found
        notes = [note for note in data.notes if "row numbers" in note]
    assert said in " ".join(notes) and bool(notes) == bool(said)


def test_the_parts_of_a_table_are_one_and_files_of_one_array_each_are_several(
    tmp_path: Path,
) -> None:
    parts, arrays = tmp_path / "parts", tmp_path / "pairs"
    for folder in (parts, arrays):
        folder.mkdir()
    for n in range(3):
        part = pa.table({"vectors": lists(ROWS[n * 100 : n * 100 + 100]), "n": [n] * 100})
        pq.write_table(part, parts / f"part-{n}.parquet")
    source = open_store(str(parts)).source("vectors")
    np.testing.assert_array_equal(source.gather(np.array([299, 0, 150])), ROWS[[299, 0, 150]])
    for name, rows in (("X_train", ROWS), ("X_val", ROWS[:9])):
        pq.write_table(pa.table({name: lists(rows)}), arrays / f"{name}.parquet")
    assert open_store(str(arrays)).source("X_val").shape == (9, 6)
    pq.write_table(pa.table({"other": [1]}), parts / "part-9.parquet")
    with pytest.raises(BadData, match=r"part-9.parquet has other columns than part-0.parquet"):
        open_store(str(parts))


def test_a_file_in_many_pieces_is_read_in_any_order_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttf_storage import _table_files, _table_rows

    monkeypatch.setattr(_table_files, "PIECE_BYTES", 1 << 10)
    monkeypatch.setattr(_table_rows, "KEPT_BYTES", 4 << 10)
    uri = save(pa.table({"vectors": lists(ROWS)}), tmp_path / "t.parquet", "parquet")
    source: Any = open_store(uri).source("vectors")
    ids = RNG.integers(0, 500, 300)
    np.testing.assert_array_equal(source.gather(ids), ROWS[ids])
    for start in range(0, 500, 33):
        np.testing.assert_array_equal(
            source.read(start, min(500, start + 33)), ROWS[start : start + 33]
        )
    assert sum(rows.nbytes for rows in source._kept._pieces.values()) <= 4 << 10
    assert "very slow" in source.slow_rows


def test_pairs_and_a_bank_of_tables_train_as_they_lie_and_say_when_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttf_storage import _table_rows

    bank = pa.table({"id": [f"d{n}" for n in range(500)], "emb": lists(ROWS)})
    pairs = pa.table({"q": lists(ROWS[:300]), "doc": pa.array(range(300), pa.int32())})
    names = {"vectors": "emb", "ids": "id", "X_train": "q", "pos_train": "doc"}
    config = DataConfig(
        pairs=save(pairs, tmp_path / "pairs.parquet", "parquet"),
        bank=save(bank, tmp_path / "bank.arrow", "file"),
        names=names,
    )
    with open_dataset(config) as data:
        assert data.bank_ids is not None and data.bank_ids[3] == "d3"
        assert len(data.train) + len(data.val) == 300
        assert not any("slow" in note for note in data.notes)
    monkeypatch.setattr(_table_rows, "KEPT_BYTES", 1 << 10)
    with open_dataset(config) as data:
        (note,) = [note for note in data.notes if "slow" in note]
    assert "ttf data convert" in note and "pairs.npz" in note


def test_what_is_converted_to_and_fro_is_equal_bit_for_bit(tmp_path: Path) -> None:
    writer = create_store(str(tmp_path / "a.npz"))
    for name, dtype in (("X_train", "float32"), ("Y_train", "float16"), ("X_val", "bfloat16")):
        rows = from_float32(ROWS, dtype)  # type: ignore[arg-type]
        writer.array(name, rows.shape, dtype).append(rows)  # type: ignore[arg-type]
    for name in ("pos_train", "pos_val"):
        writer.array(name, (500,), "int64").append(np.arange(500))
    writer.commit()
    for ending in ("parquet", "safetensors"):
        convert(str(tmp_path / "a.npz"), str(tmp_path / f"b.{ending}"))
        convert(
            str(tmp_path / f"b.{ending}"),
            str(tmp_path / "c.npz"),
            arrays=["X_train", "Y_train", "X_val", "pos_train", "pos_val"],
        )
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
        assert verify(str(tmp_path / f"b.{ending}")).problems == []
        (tmp_path / "c.npz").unlink()


def test_a_flipped_bit_and_a_file_of_another_kind_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=ROWS)
    path = tmp_path / "a.parquet"
    convert(str(tmp_path / "a.npz"), str(path))
    raw = bytearray(path.read_bytes())
    raw[5000] ^= 4
    path.write_bytes(raw)
    (problem,) = open_store(str(path)).verify()
    assert "damaged" in problem and "CRC" in problem
    path.write_bytes(b"no table at all")
    with pytest.raises(BadData, match="neither a Parquet file nor an Arrow file"):
        open_store(str(path))
    with pytest.raises(ConfigError, match="does not write them"):
        create_store(str(tmp_path / "a.arrow"))


def test_an_arrow_file_that_is_cut_in_use_is_noticed(tmp_path: Path) -> None:
    uri = save(pa.table({"vectors": lists(ROWS)}), tmp_path / "t.arrow", "file")
    store = open_store(uri)
    np.testing.assert_array_equal(store.source("vectors").read(0, 10), ROWS[:10])
    save(pa.table({"vectors": lists(ROWS[:50])}), tmp_path / "t.arrow", "file")
    with pytest.raises(DataChanged):
        store.check_unchanged()


# --- safetensors -----------------------------------------------------------------------------------


def test_tensors_of_the_library_are_mapped_where_they_lie(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    held: dict[str, Any] = {"vectors": ROWS, "half": ROWS.astype(np.float16), "wide": ROWS.astype(np.float64),
            "ids": np.arange(500), "short": np.arange(65036, 65536, dtype=np.uint16)}  # fmt: skip
    save_file(held, tmp_path / "a.safetensors", metadata={"made": "here"})
    store = open_store(str(tmp_path / "a.safetensors"))
    for name, rows in held.items():
        found = store.source(name).gather(ASKED)
        np.testing.assert_array_equal(found, rows[ASKED].astype(found.dtype))
    assert store.source("short").dtype == "int32"
    assert store.source("vectors").mappable  # type: ignore[attr-defined]
    convert(str(tmp_path / "a.safetensors"), str(tmp_path / "b.safetensors"))
    again = load_file(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(again["vectors"], ROWS)
    np.testing.assert_array_equal(again["ids"], held["ids"])


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}}',
        b'{"a":{"dtype":"F32","shape":[-2,3],"data_offsets":[0,24]}}',
        b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}',
        b'{"a":{"dtype":"F32","shape":[9999999999,9999999999],"data_offsets":[0,24]}}',
        b"[" * 9000,
        b'{"a": 3}',
    ],
)
def test_a_header_that_lies_is_refused(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(24))
    with pytest.raises(BadData, match="no safetensors file"):
        open_store(str(path))
