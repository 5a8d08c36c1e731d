"""What batches of Arrow unpack to is known before they are decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ttf
from ttf.tools.encode.read.arrow_rows import MOST_BYTES, parts_of
from ttf.tools.encode.read.arrow_tables import ArrowFolder, ParquetTable

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def _written(path: Path, table: Any, compression: str | None, *, stream: bool = False) -> Path:
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with opened(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=300)
    return path


def _data_set(folder: Path, table: Any, compression: str | None = None) -> ArrowFolder:
    folder.mkdir()
    _written(folder / "data.arrow", table, compression, stream=True)
    files = [{"filename": "data.arrow"}]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    return ArrowFolder(folder)


def _texts(offsets: list[int], data: bytes = b"some text") -> Any:
    """Strings whose places nobody has checked."""
    places = pa.py_buffer(np.array(offsets, np.int32))
    return pa.StringArray.from_buffers(len(offsets) - 1, places, pa.py_buffer(data))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_the_batches_of_a_file_are_those_that_arrow_wrote(
    tmp_path: Path, compression: str | None, *, stream: bool
) -> None:
    table = pa.table({"word": pa.array(["x", "y"] * 500).dictionary_encode(), "n": np.arange(1e3)})
    path = _written(tmp_path / "t.arrow", table, compression, stream=stream)
    with path.open("rb") as file:
        batches = list(ttf.arrow_batches(file, path))
    rows = [batch for batch in batches if batch.packed > 100]
    assert len(rows) == 4
    # A number of 8 bytes and a place in the dictionary of 4 for each row.
    assert sum(batch.unpacked for batch in rows) == (1000 * 12 if compression else 0)
    cut = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(cut)
    with path.open("rb") as file, pytest.raises(ttf.BadData, match="damaged"):
        list(ttf.arrow_batches(file, path))


def test_a_packed_batch_of_gigabytes_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    zeros = pa.array(np.zeros(1 << 27, np.uint8))
    table = pa.table({"query": zeros, "document": zeros, "more": zeros})
    with pa.ipc.new_stream(tmp_path / "data.arrow", table.schema,
                           options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:  # fmt: skip
        writer.write_table(table)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    del table, zeros
    before = pa.total_allocated_bytes()
    with pytest.raises(ttf.BadData, match=r"unpacks to 0\.4 GB"):
        ArrowFolder(tmp_path)
    with pytest.raises(ttf.StorageError, match="too large"):
        ttf.open_vectors(tmp_path / "data.arrow")
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("column", [
    _texts([0, 4, 2_000_000_000, 9]),
    _texts([0, 9, 4, 9]),
    _texts([0, 4, 5, 9], b"text\xff####"),
])  # fmt: skip
def test_texts_that_lie_outside_of_the_file_are_not_read(tmp_path: Path, column: Any) -> None:
    table = pa.table({"query": ["a", "b", "c"], "document": column})
    with pytest.raises(ttf.BadData, match=r"data\.arrow cannot be read"):
        list(_data_set(tmp_path / "set", table).rows(["query", "document"]))


def test_rows_become_objects_a_few_at_a_time_if_all_name_one_long_text(tmp_path: Path) -> None:
    """A file of 2 MB; 4,096 rows of it at once were four gigabytes."""
    long = pa.array(["x" * (2 << 20), "short"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 2048, pa.int32()), long)
    batch = pa.record_batch({"query": column})
    parts = [stop - start for start, stop in parts_of([batch.column(0)], batch.num_rows, "here")]
    assert sum(parts) == 4096
    assert max(parts) * (1 << 20) < MOST_BYTES
    _, (first,) = next(_data_set(tmp_path / "set", pa.Table.from_batches([batch])).rows(["query"]))
    assert first == long[0].as_py()


def test_a_row_with_a_list_of_a_billion_texts_is_refused(tmp_path: Path) -> None:
    count = 5 << 20
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array(["text"]))
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
    table = pa.table({"query": ["a"], "document": lists})
    pq.write_table(table, tmp_path / "list.parquet", compression="zstd")
    with pytest.raises(ttf.BadData, match="has 5,242,880 entries"):
        list(ParquetTable(tmp_path / "list.parquet").rows(["query", "document"]))


def test_lists_structs_and_views_are_read_as_they_are(tmp_path: Path) -> None:
    rows = [[{"text": "one", "n": 1}, {"text": None, "n": 2}], None, [], [{"text": "four", "n": 4}]]
    views = pa.array(["a view of more than twelve bytes", None, "b", "c"], pa.string_view())
    table = pa.table({"document": rows, "query": ["a", None, "c", "d"], "view": views})
    wanted = list(zip(rows, table["query"].to_pylist(), views.to_pylist(), strict=True))
    found = _data_set(tmp_path / "set", table).rows(["document", "query", "view"])
    assert [values for _, values in found] == wanted
    pq.write_table(table.drop(["view"]), tmp_path / "t.parquet")
    again = ParquetTable(tmp_path / "t.parquet").rows(["document", "query"])
    assert [values for _, values in again] == [values[:2] for values in wanted]
