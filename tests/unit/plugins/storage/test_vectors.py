"""Dtypes, unit length, references and finding the plugin of a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.sources import VectorRef, open_ref
from ttf.data.vectors import (
    RowView,
    UnitRows,
    from_float32,
    numpy_dtype,
    row_norms,
    to_float32,
    unit_rows,
)
from ttf.errors import BadData, ConfigError, DataMissing, UnknownName
from ttf.host.plugins import create_store, open_store, storage_for
from ttf.rundir.typed_json import dataclass_from

quick = settings(max_examples=100, deadline=None, derandomize=True, database=None)
any_floats = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=6))


@quick
@given(rows=any_floats)
def test_bfloat16_rounds_as_torch_does_and_nan_stays_nan(rows: NDArray[np.float32]) -> None:
    bits = from_float32(rows, "bfloat16")
    assert bits.dtype == np.uint16
    expected = torch.from_numpy(rows.copy()).bfloat16().float().numpy()
    np.testing.assert_array_equal(to_float32(bits, "bfloat16"), expected)


@quick
@given(rows=any_floats)
def test_widening_what_was_narrowed_is_exact(rows: NDArray[np.float32]) -> None:
    narrow_types: tuple[DType, ...] = ("bfloat16", "float16")
    for dtype in narrow_types:
        narrow = from_float32(rows, dtype)
        wide = to_float32(narrow, dtype)
        again = from_float32(wide, dtype)
        np.testing.assert_array_equal(to_float32(again, dtype), wide)


def test_float32_rows_are_not_copied() -> None:
    rows = np.ones((2, 3), np.float32)
    assert to_float32(rows, "float32") is rows
    assert numpy_dtype("bfloat16") == np.uint16


@quick
@given(
    rows=hnp.arrays(
        np.float32,
        (5, 4),
        elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False),
    )
)
def test_unit_rows_have_length_one_or_zero_whatever_their_scale(rows: NDArray[np.float32]) -> None:
    lengths = np.sqrt((unit_rows(rows).astype(np.float64) ** 2).sum(axis=1))
    expected = np.where((rows == 0).all(axis=1), 0.0, 1.0)
    np.testing.assert_allclose(lengths, expected, atol=1e-5)
    np.testing.assert_allclose(
        row_norms(rows), np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1)), rtol=1e-5
    )


def test_unit_rows_of_sequences_are_taken_step_by_step() -> None:
    rows = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    unit = unit_rows(rows)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=-1), 1, atol=1e-6)
    assert unit_rows(rows, in_place=True) is rows
    np.testing.assert_array_equal(rows, unit)


def _bank(path: Path) -> NDArray[Any]:
    rows = np.random.default_rng(3).standard_normal((20, 4)).astype(np.float32)
    np.savez(path, vectors=rows, ids=np.arange(20))
    return rows


def test_a_reference_survives_json_and_opens_the_same_rows(tmp_path: Path) -> None:
    rows = _bank(tmp_path / "bank.npz")
    picked = np.array([5, 3, 3, 19])
    np.save(tmp_path / "rows.npy", picked)
    ref = VectorRef(
        str(tmp_path / "bank.npz"), "vectors", rows_path=str(tmp_path / "rows.npy"), unit=True
    )
    again = dataclass_from(VectorRef, json.loads(json.dumps(asdict(ref))))
    assert again == ref
    with open_ref(again) as opened:
        np.testing.assert_array_equal(opened.source.read(0, 4), unit_rows(rows[picked]))
        opened.store.check_unchanged()
    with open_ref(VectorRef(ref.uri, "vectors")) as opened:
        np.testing.assert_array_equal(opened.source.gather(np.array([-1])), rows[[-1]])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, DataMissing),
        (b"nothing", BadData),
        (np.array([20]), BadData),
        (np.array([1.5]), BadData),
    ],
    ids=["missing", "damaged", "out of range", "floats"],
)
def test_bad_row_numbers_are_refused(content: Any, error: type[BadData], tmp_path: Path) -> None:
    _bank(tmp_path / "bank.npz")
    path = tmp_path / "rows.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(error):
        open_ref(VectorRef(str(tmp_path / "bank.npz"), "vectors", rows_path=str(path)))


def test_views_and_unit_rows_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    _bank(tmp_path / "bank.npz")
    store = open_store(str(tmp_path / "bank.npz"))
    source = store.source("vectors")
    views = [RowView(source, np.array(ids)) for ids in ([1, 2], [2, 1], [2, 1])]
    prints = [v.fingerprint() for v in views]
    assert prints[1] == prints[2]
    assert len({*prints, source.fingerprint(), UnitRows(source).fingerprint()}) == 4
    with pytest.raises(BadData, match="contains int64 values, not vectors"):
        UnitRows(store.source("ids"))
    store.close()


def test_the_plugin_follows_from_the_ending_or_from_what_lies_there(tmp_path: Path) -> None:
    assert storage_for("a/bank.NPZ") == "npz" and storage_for("bank.npy") == "npy"
    assert storage_for("bank.zarr/") == storage_for("s3://bucket/bank.zarr") == "zarr"
    writer = create_store(str(tmp_path / "folder"), "zarr")
    writer.array("vectors", (1, 1), "float32").append(np.ones((1, 1), np.float32))
    writer.commit()
    assert storage_for(str(tmp_path / "folder")) == "zarr"
    with pytest.raises(ConfigError, match=r"Known endings: .*\.npy, \.npz, .*\.zarr"):
        storage_for("bank.unknown")
    with pytest.raises(UnknownName, match="Did you mean 'zarr'"):
        storage_for("bank.npz", "zar")
