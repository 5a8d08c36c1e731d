"""The user's own hard negatives join each step: drawn by seed and step, so a resumed run draws the
same; refused if the bank does not have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.data_files import BANK
from tests.unit.data.test_positives import opened

from ttf.data.loader import drawn_of
from ttf.data.order import Order
from ttf.data.own_negatives import drawn
from ttf.errors import BadData

ONE = np.arange(16, dtype=np.int64)
NEGATIVES = np.stack([(ONE + n) % len(BANK) for n in range(1, 8)], axis=1)
NEGATIVES[3, 2:] = -1


def test_some_of_each_pair_are_documents_of_the_step_as_well(tmp_path: Path) -> None:
    with opened(tmp_path, pos_train=ONE, neg_train=NEGATIVES) as data:
        assert data.train.num_own == 4
        assert not [note for note in data.notes if "neg_train" in note]
        order = Order(size=len(data.train), samples_per_step=8, seed=0, fingerprint="x")
        heads = [drawn_of(step, data.train, order, None) for step in (0, 1, 0)]
    assert heads[0].doc_ids.tolist() == heads[2].doc_ids.tolist()
    for head in heads:
        own = set(head.doc_ids.tolist()) - set(head.targets.tolist())
        assert own and own <= set(NEGATIVES[head.rows].ravel().tolist())


def test_a_draw_depends_on_seed_and_step_and_takes_each_equally_often() -> None:
    rows = np.arange(16)
    counts = np.zeros(40)
    seen = set()
    for step in range(300):
        found = drawn(NEGATIVES, rows, 3, 0, step)
        assert found.shape == (16, 3)
        assert set(found[3].tolist()) <= set(NEGATIVES[3].tolist())
        np.add.at(counts, found[0], 1)
        seen.add(found.tobytes())
    assert len(seen) > 250
    assert counts[NEGATIVES[0]].min() > 80 and counts.sum() == 900
    assert np.array_equal(drawn(NEGATIVES, rows, 3, 0, 5), drawn(NEGATIVES, rows, 3, 0, 5))
    assert not np.array_equal(drawn(NEGATIVES, rows, 3, 1, 5), drawn(NEGATIVES, rows, 3, 0, 5))
    assert np.array_equal(drawn(NEGATIVES, rows, 7, 0, 5), NEGATIVES)


@pytest.mark.parametrize(
    ("negatives", "said"),
    [
        (NEGATIVES[:5], "has 5 rows, but there are 16 train"),
        (NEGATIVES + 10**6, r"neg_train\[0, 0\] .* the bank has only"),
        (NEGATIVES.astype(np.float32), "must be int64"),
    ],
)
def test_negatives_that_do_not_fit_are_refused(
    negatives: NDArray[np.int64], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData, match=said):
        opened(tmp_path, pos_train=ONE, neg_train=negatives)
