"""What a Parquet file unpacks to is known before it is decoded."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import ttf
from ttf.data.parquet_pages import AT_ONCE
from ttf.tools.encode.read.arrow_tables import ParquetTable

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_pages_of_a_column_are_those_that_arrow_wrote(
    tmp_path: Path, version: str, compression: str
) -> None:
    path = tmp_path / "t.parquet"
    rows = 50_000
    texts = [f"text {i % 7}" for i in range(rows)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 4, dtype="f4")), 4)
    table = pa.table({"text": texts, "v": vectors})
    pq.write_table(table, path, compression=compression, data_page_version=version)
    with path.open("rb") as file:
        metadata = pq.ParquetFile(path).metadata
        pages = ttf.ParquetPages(path, file, metadata)
        for number in range(2):
            chunk = metadata.row_group(0).column(number)
            found = list(pages.of(chunk))
            assert sum(page.values for page in found if page.kind != 2) == chunk.num_values
            # Each page has its header beside it, which is small.
            packed = sum(page.packed for page in found)
            assert 0 <= chunk.total_compressed_size - packed < 200 * len(found)


def test_one_long_text_that_all_rows_name_is_read_a_few_rows_at_a_time(tmp_path: Path) -> None:
    """The file has 2 kB; 4,096 rows of it at once were a gigabyte."""
    path, long = tmp_path / "bomb.parquet", "x" * (1 << 18)
    rows = 10_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([long]))
    pq.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=False)
    before = pa.total_allocated_bytes()
    for number, (text,) in itertools.islice(ParquetTable(path).rows(["text"]), 300):
        assert text == long, number
        assert pa.total_allocated_bytes() - before < 2 * AT_ONCE


def test_a_prefix_that_all_rows_repeat_is_no_way_around(tmp_path: Path) -> None:
    path, long = tmp_path / "bomb.parquet", "y" * (1 << 20)
    table = pa.table({"text": [f"{long}{i}" for i in range(50)]})
    pq.write_table(table, path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    with path.open("rb") as file:
        pages = ttf.ParquetPages(path, file, pq.ParquetFile(path).metadata)
        assert pages.rows_at_once("text", 4096) <= AT_ONCE >> 20


def test_a_list_that_is_one_number_repeated_is_refused_before_it_is_decoded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.parquet"
    count = 70_000_000
    offsets = pa.array(np.array([0, 8, 16, count], np.int64))
    values = pa.array(np.zeros(count, np.float32))
    lists = pa.LargeListArray.from_arrays(offsets, values)
    pq.write_table(pa.table({"vectors": lists}), path, compression="zstd")
    assert path.stat().st_size < 2000
    del lists, values
    before = pa.total_allocated_bytes()
    with pytest.raises(ttf.BadData, match=r"bomb\.parquet: [0-9,]+ bytes .* unpack to 0\.3 GB"):
        ttf.open_vectors(path).source("vectors")
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("damage", [b"\xff" * 64, b"\x00" * 64, b"\x15\x99" * 32])
def test_a_damaged_header_is_an_error_of_the_file(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": np.arange(100, dtype=np.float32)}), path)
    metadata = pq.ParquetFile(path).metadata
    with path.open("r+b") as file:
        file.seek(4)
        file.write(damage)
        pages = ttf.ParquetPages(path, file, metadata)
        with pytest.raises(ttf.BadData, match="is damaged: the header of a page"):
            pages.check_numbers(0, "v", 4)
