"""Columns of pandas, Polars and Arrow are arrays as they are."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.data.given_arrays import write_given
from ttf.errors import BadData

for library in ("pandas", "polars", "pyarrow"):  # Polars sets a variable of the environment
    with contextlib.suppress(ImportError):
        importlib.import_module(library)

ROWS = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
IDS = [f"d{n}" for n in range(40)]


def frame(way: str) -> Any:
    held: dict[str, Any] = {"vectors": list(ROWS), "ids": IDS, "text": ["long"] * 40}
    library = pytest.importorskip(way.split("-")[0], reason=f"{way} is not installed")
    if way == "pandas":
        return library.DataFrame(held)
    if way == "polars-array":
        kind = library.Array(library.Float32, 6)
        return library.DataFrame(held | {"vectors": library.Series(list(ROWS), dtype=kind)})
    if way == "polars":
        return library.DataFrame(held)
    if way == "pyarrow-fixed":
        fixed = library.FixedSizeListArray.from_arrays(library.array(ROWS.reshape(-1)), 6)
        chunked = library.chunked_array([fixed.slice(0, 7), fixed.slice(7)])
        return library.table(held | {"vectors": chunked})
    return library.table(held)


WAYS = ["pandas", "polars", "polars-array", "pyarrow", "pyarrow-fixed"]


@pytest.mark.parametrize("way", WAYS)
def test_a_frame_is_a_bank_with_its_ids_and_a_column_is_an_array(way: str, tmp_path: Path) -> None:
    table = frame(way)
    (path,) = write_given({"bank": table}, tmp_path).values()
    with np.load(path) as held:
        assert sorted(held) == ["ids", "vectors"]
        np.testing.assert_array_equal(held["vectors"], ROWS)
        assert held["ids"].tolist() == IDS
    column, numbers = table["vectors"], np.arange(40)
    (path,) = write_given({"pairs": {"X_train": column, "pos_train": numbers}}, tmp_path).values()
    with np.load(path) as held:
        np.testing.assert_array_equal(held["X_train"], ROWS)


@pytest.mark.parametrize("way", ["pandas", "polars", "pyarrow"])
def test_several_positives_in_a_column_are_padded_and_missing_rows_are_named(
    way: str, tmp_path: Path
) -> None:
    library = pytest.importorskip(way, reason=f"{way} is not installed")
    make = library.array if way == "pyarrow" else library.Series
    (path,) = write_given({"pairs": {"pos_train": make([[1, 2], [3]])}}, tmp_path).values()
    with np.load(path) as held:
        assert held["pos_train"].tolist() == [[1, 2], [3, -1]]
    with pytest.raises(BadData, match=r"bank=: row 1 is missing"):
        write_given({"bank": {"vectors": make([[1.0, 2.0], None])}}, tmp_path)
    with pytest.raises(BadData, match=r"bank=: row 1 has the shape \(1,\)"):
        write_given({"bank": {"vectors": make([[1.0, 2.0], [3.0]])}}, tmp_path)


@pytest.mark.parametrize("way", ["pandas", "polars"])
def test_a_frame_of_numbers_stays_a_matrix(way: str, tmp_path: Path) -> None:
    library = pytest.importorskip(way, reason=f"{way} is not installed")
    table = library.DataFrame({f"c{n}": ROWS[:, n] for n in range(6)})
    (path,) = write_given({"bank": table}, tmp_path).values()
    with np.load(path) as held:
        np.testing.assert_array_equal(held["vectors"], ROWS)
