"""The mean of the k largest products, for many vectors with few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.machine.processor import FirstPass
from ttf.mining.scan.mean_of_best import LeftOut, MeanOfBest

WAYS: tuple[FirstPass, ...] = ("bf16", "fp32")
RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((1500, 20)).astype(np.float32)
VECTORS = RNG.standard_normal((700, 20)).astype(np.float32)
LEFT_OUT = LeftOut(vectors=np.sort(RNG.integers(0, 700, 3000)), rows=RNG.integers(0, 1500, 3000))


def by_brute_force(
    rows: NDArray[Any], vectors: NDArray[Any], left_out: LeftOut, k: int
) -> NDArray[np.float64]:
    scores = vectors.astype(np.float64) @ rows.astype(np.float64).T
    scores[left_out.vectors, left_out.rows] = -np.inf
    best = -np.sort(-scores, axis=1)[:, :k]
    return np.array([line[np.isfinite(line)].mean() for line in best])


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("k", [1, 10, 400])
def test_it_is_the_mean_of_the_largest_products_without_those_left_out(
    first: FirstPass, k: int
) -> None:
    found = MeanOfBest(ROWS, k, 2, first).of(VECTORS, LEFT_OUT)
    np.testing.assert_allclose(found, by_brute_force(ROWS, VECTORS, LEFT_OUT, k), rtol=1e-5)


def test_the_bits_depend_neither_on_the_units_nor_on_the_cut() -> None:
    whole = MeanOfBest(ROWS, 10, 1, "bf16").of(VECTORS, LEFT_OUT)
    finer = MeanOfBest(ROWS, 10, 2, "fp32")
    parts = [
        finer.of(VECTORS[at : at + 77], LEFT_OUT.between(at, at + 77)) for at in range(0, 700, 77)
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_fewer_rows_than_k_are_all_taken_and_none_gives_zero() -> None:
    few = MeanOfBest(ROWS[:3], 10, 1)
    left_out = LeftOut(vectors=np.array([1, 1, 1, 2]), rows=np.array([0, 1, 2, 1]))
    found = few.of(VECTORS[:3], left_out)
    products = VECTORS[:3] @ ROWS[:3].T
    wanted = [products[0].mean(), 0.0, products[2, [0, 2]].mean()]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("first", WAYS)
def test_products_near_the_end_of_float32_are_right_too(first: FirstPass) -> None:
    rows, vectors = ROWS[:40] * np.float32(3e18), VECTORS[:5] * np.float32(3e18)
    left_out = LeftOut(vectors=np.array([2]), rows=np.array([7]))
    found = MeanOfBest(rows, 4, 1, first).of(vectors, left_out)
    np.testing.assert_allclose(found, by_brute_force(rows, vectors, left_out, 4), rtol=1e-4)


@pytest.mark.parametrize("first", WAYS)
def test_equal_rows_count_each(first: FirstPass) -> None:
    rows = np.repeat(ROWS[:5], 200, axis=0)
    nothing = LeftOut(vectors=np.empty(0, np.int64), rows=np.empty(0, np.int64))
    found = MeanOfBest(rows, 10, 1, first).of(VECTORS[:50])
    np.testing.assert_allclose(found, by_brute_force(rows, VECTORS[:50], nothing, 10), rtol=1e-5)
