"""Rows that inspection finds wrong are counted and not kept: a small file can hold millions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.data.inspect import ArrayFacts, Inspection, _measure, inspect

ROWS, BLOCKS = 50_000, 10


def blocks() -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    for number in range(BLOCKS):
        yield np.arange(number * ROWS, (number + 1) * ROWS), np.zeros((ROWS, 1), np.float32)


def test_a_file_of_zeros_takes_the_memory_of_a_block() -> None:
    facts = ArrayFacts("bank", None, None, "deflated", mappable=False, aligned=True, bytes=0)
    seen = Inspection(path="x.npz", container="npz", arrays=[], problems=[], hints=[])
    tracemalloc.start()
    try:
        _measure(blocks(), "float32", facts, "x.npz: bank", seen)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [problem] = seen.problems
    assert "500000 of the 500000 checked rows are zero: 0, 1, 2, ...." in problem
    assert peak < 8_000_000


def test_a_table_of_candidates_and_grades_have_no_problem(tmp_path: Path) -> None:
    ids = np.zeros((5, 3), np.int64)
    np.savez(tmp_path / "found.npz", ids=ids, scores=np.zeros((5, 3), np.float32))
    seen = inspect(str(tmp_path / "found.npz"))
    assert (seen.problems, [note for note in seen.notes if "zero" in note]) == ([], [])
    x = np.ones((5, 3), np.float32)
    x[1] = 0
    grades = np.array([[1], [0], [1], [1], [1]], np.float32)
    np.savez(tmp_path / "pairs.npz", X_train=x, pos_train=np.arange(5), rel_train=grades)
    (note,) = [note for note in inspect(str(tmp_path / "pairs.npz")).notes if "zero" in note]
    assert "X_train" in note and "equally near to such a query" in note


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("said_by", ["len_train", "mask_train"])
def test_what_lies_in_the_padding_is_no_problem_and_in_no_norm(
    said_by: str, full: bool, tmp_path: Path
) -> None:
    lengths = np.arange(40) % 3 + 1
    valid = np.arange(3) < lengths[:, None]
    x = np.where(valid[..., None], np.float32(2), np.float32(np.nan)) * np.ones(4, np.float32)
    said: dict[str, Any] = {said_by: lengths if said_by == "len_train" else valid}
    np.savez(tmp_path / "p.npz", X_train=x, pos_train=np.arange(40), **said)
    seen = inspect(str(tmp_path / "p.npz"), full=full)
    assert seen.problems == []
    (facts,) = [array for array in seen.arrays if array.name == "X_train"]
    assert (facts.finite, facts.norms) == (True, {"min": 4.0, "mean": 4.0, "max": 4.0})
    x[7, 0] = np.nan
    np.savez(tmp_path / "p.npz", X_train=x, pos_train=np.arange(40), **said)
    (problem,) = inspect(str(tmp_path / "p.npz"), full=full).problems
    assert "1 of the 40 checked rows is not finite (NaN or infinite): 7." in problem


@pytest.mark.parametrize("name", ["X_train", "vectors"])
def test_vectors_of_integers_are_refused_with_their_type_and_without_a_promise(
    name: str, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {name: np.ones((9, 4), np.int8), "pos_train": np.arange(9)}
    np.savez(tmp_path / "p.npz", **arrays)
    seen = inspect(str(tmp_path / "p.npz"))
    assert any(f"{name} in" in p and "int8" in p and "float64" in p for p in seen.problems)
    assert not any("converted" in note for note in seen.notes)
    assert "int32" not in " ".join([*seen.problems, *seen.notes])
