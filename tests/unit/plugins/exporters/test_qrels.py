"""The qrels of `trec` and `beir` have the grades of the pairs, as `ttf eval` counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ttf
from ttf.hookspecs import Searched
from ttf_exporters.beir_results import BeirExporter, Options as BeirOptions
from ttf_exporters.trec_run import Options as TrecOptions, TrecExporter

QUERIES = 3
POSITIVES = np.array([[4, 1], [2, -1], [0, 3]])


class Source:
    """A retriever that finds rows 0 to 9 for each query."""

    class facts:
        rows = 10

    def __init__(self, grades: NDArray[np.float32] | None) -> None:
        self._grades = grades

    def ids(self) -> NDArray[Any]:
        return np.array([f"d{row}" for row in range(10)])

    def searched(self, k: int) -> Iterator[Searched]:
        yield Searched(
            queries=np.arange(QUERIES),
            rows=np.tile(np.arange(k), (QUERIES, 1)),
            scores=np.tile(np.linspace(1, 0, k, dtype=np.float32), (QUERIES, 1)),
            positives=POSITIVES,
            grades=self._grades,
        )


def _trec(source: Any, folder: Path) -> list[str]:
    TrecExporter(TrecOptions(k=10)).write(source, folder)
    lines = (folder / "qrels.trec").read_text().splitlines()
    return [" ".join(line.split()[::3]) for line in lines]


def _beir(source: Any, folder: Path) -> list[str]:
    BeirExporter(BeirOptions(k=10)).write(source, folder)
    lines = (folder / "qrels/validation.tsv").read_text().splitlines()[1:]
    return [" ".join(line.split("\t")[::2]) for line in lines]


Written = Callable[[Any, Path], list[str]]


@pytest.mark.parametrize("written", [_trec, _beir])
def test_qrels_have_the_grades_of_the_pairs(written: Written, tmp_path: Path) -> None:
    grades = np.array([[3, 1], [2, 0], [1, 2]], np.float32)
    assert written(Source(grades), tmp_path) == ["0 3", "0 1", "1 2", "2 1", "2 2"]


@pytest.mark.parametrize("written", [_trec, _beir])
def test_without_grades_each_positive_counts_one(written: Written, tmp_path: Path) -> None:
    assert written(Source(None), tmp_path) == ["0 1", "0 1", "1 1", "2 1", "2 1"]


@pytest.mark.parametrize("written", [_trec, _beir])
def test_grades_that_qrels_cannot_hold_are_refused(written: Written, tmp_path: Path) -> None:
    grades = np.array([[3, 1], [0.5, 0], [1, 2]], np.float32)
    with pytest.raises(ttf.ConfigError, match=r"positive of query 1 is 0\.5 .*whole numbers"):
        written(Source(grades), tmp_path)
