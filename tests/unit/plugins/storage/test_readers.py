"""Every reader gives what plain numpy indexing gives, whatever the container and the ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.widely import CHAOS, wide

from ttf.contracts import DType, Store, VectorSource
from ttf.data.vectors import RowView, UnitRows, from_float32, to_float32, unit_rows
from ttf.host.plugins import create_store, open_store

ROWS = 53
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16")
TAILS: dict[str, tuple[int, ...]] = {"2-D": (6,), "3-D": (3, 5)}
AS_OTHERS = {("float32", "3-D"), ("float16", "2-D"), ("bfloat16", "3-D")}
"""In the suite each dtype has one of the two shapes."""


def numbers(tail: tuple[int, ...], dtype: DType, rows: int = ROWS) -> NDArray[Any]:
    """Distinct values in the stored dtype."""
    values = np.random.default_rng(7).standard_normal((rows, *tail)).astype(np.float32)
    return from_float32(values, dtype)


def aligned_npz(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return _written(str(path.with_suffix(".npz")), rows, dtype)


def misaligned_npz(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    members = {"vectors": rows}
    if dtype == "bfloat16":
        members["vectors.dtype"] = np.array("bfloat16")
    np.savez(path.with_suffix(".npz"), **members)  # type: ignore[arg-type]
    return str(path.with_suffix(".npz"))


def sharded_by_us(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return _written(str(path.with_suffix(".zarr")), rows, dtype)


def _written(uri: str, rows: NDArray[Any], dtype: DType) -> str:
    writer = create_store(uri)
    array = writer.array("vectors", rows.shape, dtype)
    array.append(rows[:11])
    array.append(rows[11:])
    writer.commit()
    return uri


def zarr_array(
    path: Path, rows: NDArray[Any], dtype: DType, *, version: Any = 3, **layout: Any
) -> str:
    uri = str(path.with_suffix(".zarr"))
    group = zarr.open_group(uri, mode="w", zarr_format=version)
    array = group.create_array("vectors", data=rows, **layout)
    if dtype == "bfloat16":
        array.attrs["dtype"] = "bfloat16"
    return uri


def plain_zarr(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return zarr_array(path, rows, dtype, chunks=(8, *rows.shape[1:]), compressors=None)


def sharded_zarr(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return zarr_array(
        path, rows, dtype, chunks=(4, *rows.shape[1:]), shards=(20, *rows.shape[1:]),
        compressors=None,
    )  # fmt: skip


def shuffled_shards(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    """Chunks in reverse order, as other writers may do."""
    uri = sharded_zarr(path, rows, dtype)
    rewrite_shards(uri, at_end=True, gap=0)
    return uri


def shards_with_gaps(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    """Chunks in reverse order with gaps between them that no row size divides."""
    uri = sharded_zarr(path, rows, dtype)
    rewrite_shards(uri, at_end=True, gap=3)
    return uri


def shards_with_index_first(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    uri = sharded_zarr(path, rows, dtype)
    rewrite_shards(uri, at_end=False, gap=0)
    edit_codec(Path(uri), index_location="start", index_codecs=[_BYTES])
    return uri


_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def edit_codec(group: Path, **values: Any) -> None:
    path = group / "vectors" / "zarr.json"
    meta = json.loads(path.read_text())
    meta["codecs"][0]["configuration"].update(values)
    path.write_text(json.dumps(meta))


def rewrite_shards(uri: str, *, at_end: bool, gap: int) -> None:
    for shard in Path(uri, "vectors", "c").rglob("*"):
        if shard.is_file():
            _rewrite_shard(shard, chunks=5, at_end=at_end, gap=gap)


def _rewrite_shard(path: Path, *, chunks: int, at_end: bool, gap: int) -> None:
    """The same chunks, last one first, with `gap` bytes before every second one."""
    from google_crc32c import value as crc32c

    raw = path.read_bytes()
    index = np.frombuffer(raw[-(16 * chunks + 4) : -4], "<u8").reshape(chunks, 2).copy()
    head = b"" if at_end else bytes(16 * chunks)
    body = bytearray(head)
    for number in reversed(range(chunks)):
        start, length = (int(n) for n in index[number])
        if start == 2**64 - 1:
            continue
        body += bytes(gap * (number % 2))
        index[number] = len(body), length
        body += raw[start : start + length]
    if at_end:
        table = index.tobytes()
        body += table + crc32c(table).to_bytes(4, "little")
    else:
        body[: 16 * chunks] = index.tobytes()
    path.write_bytes(bytes(body))


def compressed_zarr(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return zarr_array(path, rows, dtype, chunks=(8, *rows.shape[1:]))


def compressed_shards(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    tail = rows.shape[1:]
    return zarr_array(path, rows, dtype, chunks=(4, *tail), shards=(20, *tail))


def zarr_cut_across_rows(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    chunks = (8, *rows.shape[1:-1], 2)
    return zarr_array(path, rows, dtype, chunks=chunks, compressors=None)


def old_zarr(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return zarr_array(path, rows, dtype, version=2, chunks=(8, *rows.shape[1:]))


def old_plain_zarr(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    layout = {"chunks": (8, *rows.shape[1:]), "compressors": None}
    return zarr_array(path, rows, dtype, version=2, **layout)


def zarr_by_url(path: Path, rows: NDArray[Any], dtype: DType) -> str:
    return "file://" + compressed_zarr(path, rows, dtype)


Maker = Callable[[Path, NDArray[Any], DType], str]
MAKERS: tuple[Maker, ...] = (
    aligned_npz,
    misaligned_npz,
    sharded_by_us,
    plain_zarr,
    sharded_zarr,
    shuffled_shards,
    shards_with_gaps,
    shards_with_index_first,
    compressed_zarr,
    compressed_shards,
    zarr_cut_across_rows,
    old_zarr,
    old_plain_zarr,
    zarr_by_url,
)
MAPPED = frozenset(
    {
        "aligned_npz",
        "misaligned_npz",
        "sharded_by_us",
        "plain_zarr",
        "sharded_zarr",
        "shuffled_shards",
        "shards_with_gaps",
        "shards_with_index_first",
        "old_plain_zarr",
    }
)


@dataclass(frozen=True)
class Case:
    """An open container and the rows it must hold."""

    kind: str
    store: Store
    source: VectorSource
    rows: NDArray[Any]


@pytest.fixture(scope="module", params=MAKERS, ids=lambda maker: maker.__name__)
def maker(request: pytest.FixtureRequest) -> Maker:
    return request.param  # type: ignore[no-any-return]


KINDS = tuple(
    pytest.param(
        (dtype, tail), id=f"{dtype}-{name}", marks=wide if (dtype, name) in AS_OTHERS else ()
    )
    for dtype in DTYPES
    for name, tail in TAILS.items()
)


@pytest.fixture(scope="module", params=KINDS)
def case(
    request: pytest.FixtureRequest, maker: Maker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    dtype, tail = request.param
    rows = numbers(tail, dtype)
    uri = maker(tmp_path_factory.mktemp("store") / "bank", rows, dtype)
    store = open_store(uri)
    yield Case(maker.__name__, store, store.source("vectors"), rows)
    store.close()


ids_of_any_kind = st.lists(
    st.one_of(
        st.integers(-ROWS, ROWS - 1),
        st.sampled_from([0, -1, ROWS - 1, -ROWS, 7, 8, 19, 20, 39, 40, 52]),
    ),
    max_size=40,
)
quick = settings(max_examples=24 if CHAOS else 6, deadline=None, derandomize=True, database=None)


@quick
@given(ids=ids_of_any_kind)
def test_a_gather_equals_numpy_indexing(case: Case, ids: list[int]) -> None:
    wanted = np.array(ids, np.int64)
    expected = case.rows[wanted]
    found = case.source.gather(wanted)
    assert found.dtype == case.rows.dtype and found.flags.aligned and found.flags.writeable
    np.testing.assert_array_equal(found, expected)
    out = np.full_like(expected, 9)
    assert case.source.gather(wanted, out) is out
    np.testing.assert_array_equal(out, expected)


@quick
@given(start=st.integers(0, ROWS), length=st.integers(0, ROWS))
def test_a_read_equals_a_numpy_slice(case: Case, start: int, length: int) -> None:
    stop = min(ROWS, start + length)
    found = case.source.read(start, stop)
    assert found.flags.aligned
    np.testing.assert_array_equal(found, case.rows[start:stop])
    out = np.empty_like(case.rows[start:stop])
    assert case.source.read(start, stop, out) is out
    np.testing.assert_array_equal(out, case.rows[start:stop])


def test_all_rows_permuted_come_back_in_the_order_asked_for(case: Case) -> None:
    order = np.random.default_rng(1).permutation(ROWS)
    np.testing.assert_array_equal(case.source.gather(order), case.rows[order])


@pytest.mark.parametrize("wrong", [[ROWS], [-ROWS - 1], [0, 2**40]])
def test_ids_out_of_range_are_refused_before_anything_is_read(case: Case, wrong: list[int]) -> None:
    out = np.full((len(wrong), *case.rows.shape[1:]), 9, case.rows.dtype)
    with pytest.raises(IndexError, match="out of range for vectors with 53 rows"):
        case.source.gather(np.array(wrong), out)
    assert (out == 9).all()
    with pytest.raises(IndexError, match="out of range"):
        case.source.read(0, ROWS + 1)


@quick
@given(ids=ids_of_any_kind, rows=ids_of_any_kind)
def test_a_view_on_rows_equals_indexing_twice(case: Case, rows: list[int], ids: list[int]) -> None:
    view = RowView(case.source, np.array(rows, np.int64))
    expected = case.rows[np.array(rows, np.int64)]
    fitting = np.array([i for i in ids if -len(rows) <= i < len(rows)], np.int64)
    np.testing.assert_array_equal(view.gather(fitting), expected[fitting])
    np.testing.assert_array_equal(view.read(0, len(rows)), expected)


def test_unit_rows_have_length_one_and_leave_the_file_alone(case: Case) -> None:
    unit = UnitRows(case.source)
    expected = unit_rows(to_float32(case.rows, case.source.dtype))
    np.testing.assert_array_equal(unit.gather(np.arange(ROWS)), expected)
    np.testing.assert_array_equal(unit.read(0, ROWS), expected)
    np.testing.assert_array_equal(case.source.read(0, ROWS), case.rows)


def test_a_store_says_how_it_holds_its_array(case: Case) -> None:
    facts = case.store.describe("vectors")
    assert case.store.names() == ["vectors"]
    assert case.source.shape == case.rows.shape
    assert facts["dtype"] == case.source.dtype
    assert facts["mappable"] == (case.kind in MAPPED)
    assert facts["aligned"] == (case.kind in MAPPED - {"misaligned_npz"})
    assert facts["bytes"] > 0 and facts["problem"] is None
    assert list(case.store.verify()) == []
    case.store.check_unchanged()


def test_a_fingerprint_is_the_same_when_a_file_is_opened_again(case: Case) -> None:
    again = open_store(case.store.uri)
    assert again.source("vectors").fingerprint() == case.source.fingerprint()
    again.close()
