"""Grades of positives: read beside them, refused if they do not fit, counted in nDCG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.data.test_positives import opened

from ttf.errors import BadData
from ttf.training.evaluation import metrics_from_ranks

POSITIVES = np.tile(np.array([3, 4, -1], np.int64), (16, 1))
GRADES = np.tile(np.array([2.0, 1.0, 0.0], np.float32), (16, 1))


def test_grades_stand_beside_their_positives_and_change_the_fingerprint(tmp_path: Path) -> None:
    with opened(tmp_path, pos_train=POSITIVES) as plain:
        assert plain.train.graded(np.arange(2)) is None
        before = plain.fingerprint
    with opened(tmp_path, pos_train=POSITIVES, rel_train=GRADES) as data:
        found = data.train.graded(np.array([5]))
        assert found is not None and found.tolist() == [[2.0, 1.0, 0.0]]
        assert data.fingerprint != before
        assert not [note for note in data.notes if "rel_train" in note]


@pytest.mark.parametrize(
    ("grades", "said"),
    [
        (GRADES[:, :2], "must be numbers of the shape"),
        (GRADES * 0, "above 0"),
        (GRADES * np.nan, "above 0"),
        (-GRADES, r"rel_train\[0, 0\] in .* is -2"),
    ],
)
def test_grades_that_do_not_fit_are_refused(grades: np.ndarray, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        opened(tmp_path, pos_train=POSITIVES, rel_train=grades)


def test_ndcg_counts_grades_as_trec_eval_does() -> None:
    ranks = np.array([[1, 0, -1], [0, 30, 4]])
    grades = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 1.0]], np.float32)
    discount = 1 / np.log2(np.arange(10) + 2)
    first = (3 * discount[1] + 1 * discount[0]) / (3 * discount[0] + 1 * discount[1])
    best = 2 * discount[0] + discount[1] + discount[2]
    second = (discount[0] + discount[4]) / best
    found = metrics_from_ranks(ranks, [1], grades)
    assert found["ndcg@10"] == pytest.approx((first + second) / 2)


def test_equal_grades_are_as_no_grades() -> None:
    ranks = np.random.default_rng(0).integers(0, 40, (50, 4))
    ranks[:, 3] = -1
    for grade in (1.0, 5.0):
        found = metrics_from_ranks(ranks, [1, 10], np.full(ranks.shape, grade, np.float32))
        assert found == pytest.approx(metrics_from_ranks(ranks, [1, 10]))
