"""Rows that are known by their number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ttf.data.items import Items, Numbered, numbers_in
from ttf.data.sources import GivenRows


def test_every_number_that_a_table_can_have_survives_the_way_through_float32() -> None:
    numbers = np.array([0, 1, 2**20 - 1, 2**20, 2**24 + 1, 10_000_001, 2**31 - 3])
    rows = Items(2**31 - 2, 4).gather(numbers)
    assert rows.dtype == np.float32
    assert numbers_in(torch.from_numpy(rows)).tolist() == numbers.tolist()


def test_a_numbered_bank_keeps_its_vectors_and_counts_its_rows() -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    bank = Numbered(GivenRows(vectors, "bank"))
    assert bank.shape == (7, 5)
    for rows, ids in ((bank.gather(np.array([5, 0, -1])), [5, 0, 6]), (bank.read(2, 5), [2, 3, 4])):
        assert np.array_equal(rows[:, :3], vectors[ids])
        assert numbers_in(torch.from_numpy(rows)).tolist() == ids


def test_items_beyond_the_last_are_refused() -> None:
    with pytest.raises(IndexError):
        Items(5, 4).gather(np.array([5]))
    assert Items(5, 4).fingerprint() != Items(6, 4).fingerprint()
