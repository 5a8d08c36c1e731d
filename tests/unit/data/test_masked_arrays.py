"""Arrays of numpy in which some values do not count."""

from __future__ import annotations

import numpy as np
import pytest

from ttf.data.given_arrays import as_numpy
from ttf.errors import BadData

_ROWS = np.ones((3, 2), np.float32)


def test_values_that_do_not_count_are_not_read_as_numbers() -> None:
    masked = np.ma.masked_array(_ROWS, mask=[[False, True], [False, False], [False, False]])
    with pytest.raises(BadData, match="the bank is a masked array"):
        as_numpy(masked, "the bank")


def test_a_masked_array_without_such_values_is_an_array() -> None:
    assert np.array_equal(as_numpy(np.ma.masked_array(_ROWS, mask=False), "the bank"), _ROWS)
