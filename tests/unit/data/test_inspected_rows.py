"""Rows that inspection finds wrong are counted and not kept: a small file can hold millions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.data.inspect import ArrayFacts, Inspection, _measure

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
