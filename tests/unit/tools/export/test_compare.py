"""When two answers are the same, and when not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.data.sources import MemorySource
from ttf.tools.export.compare import answers_agree, equal_bits, largest_difference, tolerance

RNG = np.random.default_rng(3)
BANK: NDArray[np.float32] = RNG.standard_normal((40, 6)).astype(np.float32)
BANK /= np.linalg.norm(BANK, axis=1, keepdims=True)
QUERIES: NDArray[np.float32] = (BANK[:5] + 0.01).astype(np.float32)


def best(k: int = 10) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    scores: NDArray[np.float32] = QUERIES @ BANK.T
    rows = np.argsort(-scores, axis=1)[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


def test_equal_answers_are_the_same() -> None:
    found = answers_agree(QUERIES, MemorySource(BANK), best(), best())
    assert (found.same, found.max_difference, found.first_other) == (1.0, 0.0, -1)


def test_another_document_is_another_answer() -> None:
    rows, scores = best()
    other = rows.copy()
    other[3, 9] = best(40)[0][3, 30]
    found = answers_agree(QUERIES, MemorySource(BANK), (rows, scores), (other, scores))
    assert (found.same, found.first_other) == (0.8, 3)


def test_a_document_as_good_as_the_tenth_is_the_same() -> None:
    bank = np.concatenate([BANK, BANK])  # each document twice
    rows, scores = best()
    other = rows.copy()
    other[:, 9] += len(BANK)
    found = answers_agree(QUERIES, MemorySource(bank), (rows, scores), (other, scores))
    assert found.same == 1.0


@pytest.mark.parametrize("wrong", [-1, 40])
def test_rows_that_do_not_exist_are_another_answer(wrong: int) -> None:
    rows, scores = best()
    other = rows.copy()
    other[0, 0] = wrong
    assert answers_agree(QUERIES, MemorySource(BANK), (rows, scores), (other, scores)).same == 0.8


def test_a_document_twice_is_another_answer() -> None:
    rows, scores = best()
    other = rows.copy()
    other[0, 9] = other[0, 0]
    assert answers_agree(QUERIES, MemorySource(BANK), (rows, scores), (other, scores)).same == 0.8


def test_the_tolerance_grows_with_large_scores_alone() -> None:
    assert tolerance(np.array([0.3], np.float32)) == pytest.approx(1e-5)
    assert tolerance(np.array([-200.0], np.float32)) == pytest.approx(2e-3)


def test_bits_and_differences() -> None:
    zero = np.zeros(3, np.float32)
    assert equal_bits(zero, zero.copy()) and not equal_bits(zero, -zero)
    assert largest_difference(zero, zero + np.float32(0.5)) == 0.5
    assert largest_difference(zero, zero[:2]) == float("inf")
    assert largest_difference(zero, np.full(3, np.nan, np.float32)) == float("inf")
