"""Sources seen as one, and rows of a source seen as a source, against numpy itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.data_files import write

from ttf.contracts import VectorSource
from ttf.data.sources import StackedRows
from ttf.data.vectors import RowView
from ttf.host.plugins import open_store

PARTS = [
    np.arange(count * 3, dtype=np.float32).reshape(count, 3) + 1000 * index
    for index, count in enumerate((5, 1, 9))
]
WHOLE = np.concatenate(PARTS)


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("stacked") / "parts.npz"
    store = open_store(write(path, {f"p{i}": part for i, part in enumerate(PARTS)}))
    yield StackedRows([store.source(f"p{i}") for i in range(len(PARTS))])
    store.close()


def check(source: VectorSource, plain: NDArray[Any], ids: list[int], span: list[int]) -> None:
    wanted = np.array(ids, dtype=np.int64)
    assert (source.gather(wanted) == plain[wanted]).all()
    out = np.empty((len(ids), 3), np.float32)
    assert source.gather(wanted, out) is out
    assert (out == plain[wanted]).all()
    start, stop = span
    assert (source.read(start, stop) == plain[start:stop]).all()
    out = np.empty((stop - start, 3), np.float32)
    source.read(start, stop, out)
    assert (out == plain[start:stop]).all()


def ids_and_span(rows: int) -> st.SearchStrategy[tuple[list[int], list[int]]]:
    return st.tuples(
        st.lists(st.integers(-rows, rows - 1), max_size=20),
        st.lists(st.integers(0, rows), min_size=2, max_size=2).map(sorted),
    )


@given(asked=ids_and_span(len(WHOLE)))
@settings(max_examples=150, deadline=None)
def test_stacked_rows_are_their_concatenation(
    stacked: StackedRows, asked: tuple[list[int], list[int]]
) -> None:
    assert stacked.shape == WHOLE.shape
    check(stacked, WHOLE, *asked)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_view_of_rows_is_fancy_indexing(stacked: StackedRows, data: st.DataObject) -> None:
    last = len(WHOLE) - 1
    rows = data.draw(st.lists(st.integers(-last - 1, last), min_size=1, max_size=30))
    chosen = np.array(rows, dtype=np.int64)
    view = RowView(stacked, chosen)
    assert view.shape == (len(rows), 3)
    check(view, WHOLE[chosen], *data.draw(ids_and_span(len(rows))))


@pytest.mark.parametrize("row", [15, -16, 2**40])
def test_a_row_that_is_not_there_is_an_index_error(stacked: StackedRows, row: int) -> None:
    wanted = np.array([0, row], dtype=np.int64)
    with pytest.raises(IndexError, match="out of range"):
        stacked.gather(wanted)
    with pytest.raises(IndexError, match="out of range"):
        RowView(stacked, np.arange(15)).gather(wanted)


@pytest.mark.parametrize("span", [(-1, 2), (3, 16), (4, 2)])
def test_a_span_that_is_not_there_is_an_index_error(
    stacked: StackedRows, span: tuple[int, int]
) -> None:
    with pytest.raises(IndexError, match="out of range"):
        stacked.read(*span)


def test_every_row_knows_its_part(stacked: StackedRows) -> None:
    found = [stacked.owner_of(row) for row in range(15)]
    assert [part.name for part, _ in found] == ["p0"] * 5 + ["p1"] + ["p2"] * 9
    assert [row for _, row in found] == [*range(5), 0, *range(9)]


def test_fingerprints_depend_on_the_order_of_parts_and_rows(
    stacked: StackedRows, tmp_path: Path
) -> None:
    other = StackedRows(stacked.parts[::-1])
    assert other.fingerprint() != stacked.fingerprint()
    views = [RowView(stacked, np.array(rows)) for rows in ([0, 1], [1, 0], [0, 1, 1])]
    assert len({view.fingerprint() for view in views}) == 3
