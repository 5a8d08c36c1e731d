"""Arrays as NumPy, pandas and scikit-learn give them are read as they are, and cast by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from ttf.data.convert import convert
from ttf.data.inspect import inspect
from ttf.errors import BadData
from ttf.host.plugins import open_store
from ttf_storage import _cast_rows, _npy_header

ROWS = 37
WIDE = np.random.default_rng(3).standard_normal((ROWS, 5))
STEPS = np.random.default_rng(4).standard_normal((ROWS, 3, 5))
NUMBERS = np.arange(ROWS) - 5

HELD: dict[str, tuple[NDArray[Any], str]] = {
    "float64": (WIDE, "float32"),
    "float64 sequences": (STEPS, "float32"),
    "Fortran float64": (np.asfortranarray(WIDE), "float32"),
    "Fortran float32": (np.asfortranarray(WIDE, dtype=np.float32), "float32"),
    "Fortran sequences": (np.asfortranarray(STEPS), "float32"),
    "big-endian": (WIDE.astype(">f4"), "float32"),
    "big-endian Fortran": (np.asfortranarray(WIDE, dtype=">f8"), "float32"),
    "big-endian numbers": (NUMBERS.astype(">i8"), "int64"),
    "int8": (NUMBERS.astype(np.int8), "int32"),
    "int16": (NUMBERS.astype(np.int16), "int32"),
    "uint32": (NUMBERS.astype(np.uint32), "int64"),
    "bool": (NUMBERS % 2 > 0, "uint8"),
}


def npz(path: Path, array: NDArray[Any]) -> str:
    """Behind a member of odd length, so that nothing lies on a boundary."""
    np.savez(path.with_suffix(".npz"), a=np.zeros(3, np.uint8), vectors=array)
    return str(path.with_suffix(".npz"))


def npy(path: Path, array: NDArray[Any]) -> str:
    np.save(path.with_suffix(".npy"), array)
    return str(path.with_suffix(".npy"))


def zarr_group(path: Path, array: NDArray[Any]) -> str:
    group = zarr.open_group(str(path.with_suffix(".zarr")), mode="w")
    group.create_array("vectors", data=np.ascontiguousarray(array), chunks=(8, *array.shape[1:]))
    return str(path.with_suffix(".zarr"))


@pytest.mark.parametrize("write", [npz, npy, zarr_group])
@pytest.mark.parametrize(("array", "dtype"), HELD.values(), ids=HELD)
def test_rows_are_those_of_numpy_in_the_nearest_type(
    array: NDArray[Any], dtype: str, write: Callable[..., str], tmp_path: Path
) -> None:
    store = open_store(write(tmp_path / "x", array))
    source = store.source("vectors")
    wanted = np.ascontiguousarray(array.astype(dtype))
    assert (source.shape, source.dtype) == (array.shape, dtype)
    ids = np.array([36, 0, 7, 7, -1, -37])
    for found, right in (
        (source.gather(ids), wanted[ids]),
        (source.read(0, ROWS), wanted),
        (source.read(3, 9), wanted[3:9]),
        (source.gather(np.empty(0, np.int64)), wanted[:0]),
    ):
        np.testing.assert_array_equal(found, right)
        assert found.dtype == np.dtype(dtype)
    out = np.empty_like(wanted[ids])
    assert source.gather(ids, out) is out
    np.testing.assert_array_equal(out, wanted[ids])
    assert len(source.fingerprint()) >= 16
    assert list(store.verify()) == []
    store.close()


@pytest.mark.parametrize("piece", [1, 40, 41, 400])
def test_large_gathers_are_cast_in_pieces(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cast_rows, "_PIECE_BYTES", piece)
    ids = np.random.default_rng(5).integers(-ROWS, ROWS, 90)
    for array in (WIDE, np.asfortranarray(WIDE)):
        source = open_store(npz(tmp_path / "x", array)).source("vectors")
        np.testing.assert_array_equal(source.gather(ids), array.astype(np.float32)[ids])


@pytest.mark.parametrize("write", [npz, zarr_group])
def test_numbers_beyond_float32_are_not_finite_and_inspect_names_them(
    write: Callable[..., str], tmp_path: Path
) -> None:
    array = WIDE.copy()
    array[4, 1] = 1e300
    uri = write(tmp_path / "x", array)
    assert np.isinf(open_store(uri).source("vectors").read(4, 5)[0, 1])
    seen = inspect(uri)
    assert any("is not finite" in problem and ": 4." in problem for problem in seen.problems)
    [facts] = [a for a in seen.arrays if a.name == "vectors"]
    assert facts.dtype == "float64"
    assert any("vectors is float64: its rows are converted to float32" in n for n in seen.notes)


def test_a_large_array_in_fortran_order_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npy_header, "_MOST_TURNED_BYTES", WIDE.nbytes - 1)
    uri = npz(tmp_path / "x", np.asfortranarray(WIDE))
    with pytest.raises(BadData, match="stored in Fortran order") as refused:
        open_store(uri).source("vectors")
    assert refused.value.hint.startswith("Convert it: ttf data convert")


@pytest.mark.parametrize(
    "array", [WIDE.astype(np.complex64), NUMBERS.astype(np.uint64), WIDE.astype(np.longdouble)]
)
def test_types_without_a_near_one_are_refused(array: NDArray[Any], tmp_path: Path) -> None:
    with pytest.raises(BadData, match="must be|must contain numbers"):
        open_store(npz(tmp_path / "x", array)).source("vectors")


@pytest.mark.parametrize(
    ("array", "hint"),
    [
        (np.zeros((2, 3), "V2"), "ml_dtypes.bfloat16"),
        (np.zeros(2, [("id", "i8"), ("v", "f4", (3,))]), "array['id']"),
        (np.zeros((2, 3), np.complex64), "array.real"),
        (np.zeros(2, "M8[s]"), "numpy.asarray(ids, dtype=str)"),
    ],
)
def test_what_is_not_numbers_is_refused_with_what_to_save(
    array: NDArray[Any], hint: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData, match="must contain numbers") as refused:
        open_store(npz(tmp_path / "x", array)).source("vectors")
    assert hint in refused.value.hint


def test_the_hint_for_pickled_vectors_works_on_them(tmp_path: Path) -> None:
    rows: NDArray[Any] = np.empty(2, dtype=object)
    rows[:] = [np.ones(3), np.zeros(3)]
    with pytest.raises(BadData, match="pickled") as refused:
        open_store(npz(tmp_path / "x", rows)).source("vectors")
    assert "numpy.stack(rows).astype('float32')" in refused.value.hint
    assert np.stack(list(rows)).astype("float32").shape == (2, 3)


def test_long_doubles_are_converted_as_the_refusal_proposes(tmp_path: Path) -> None:
    convert(npz(tmp_path / "x", WIDE.astype(np.longdouble)), str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["vectors"], WIDE.astype(np.float32))


def test_a_row_that_would_become_zero_is_not_converted(tmp_path: Path) -> None:
    small = np.array([[1e-200, 1.0], [1e-200, 0.0], [0.0, 0.0]])
    with pytest.raises(BadData, match="all values of row 1 are too small for float32"):
        convert(npz(tmp_path / "x", small), str(tmp_path / "out.npz"))
