"""Arrays of other libraries, as a caller of Python gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from ttf.data.given_arrays import as_numpy
from ttf.errors import BadData

_ROWS = np.ones((3, 2), np.float32)
_OBJECTS = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=object)


def test_numbers_above_int64_are_refused_and_never_wrapped() -> None:
    hashes = np.array([1, 2**63], np.uint64)
    with pytest.raises(BadData, match="too large for int64, up to 9223372036854775808") as refused:
        as_numpy(hashes, "ids")
    assert "ids.astype(str)" in refused.value.hint
    assert as_numpy(hashes.astype(str), "ids").tolist() == ["1", "9223372036854775808"]
    assert as_numpy(hashes[:1], "ids").tolist() == [1]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (sparse.csr_matrix(_ROWS), "matrix.toarray()"),
        (_OBJECTS, 'array.astype("float32")'),
        (_ROWS.astype(np.complex64), "array.real"),
    ],
)
def test_what_is_not_numbers_is_refused_with_a_way_to_make_numbers(value: Any, hint: str) -> None:
    with pytest.raises(BadData, match="must be rows of numbers") as refused:
        as_numpy(value, "the bank")
    assert hint in refused.value.hint


def test_a_tensor_without_values_is_refused() -> None:
    with pytest.raises(BadData, match="cannot be read as one array of numbers"):
        as_numpy(torch.empty(2, 2, device="meta"), "the bank")


def test_bfloat16_of_other_libraries_becomes_float32() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the library of jax is not installed")
    array = as_numpy(_ROWS.astype(ml_dtypes.bfloat16), "the bank")
    assert array.dtype == np.float32
    assert np.array_equal(array, _ROWS)
