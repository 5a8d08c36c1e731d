"""What is particular to this miner; what holds for every miner is in test_conformance.py."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf_miner_your_name._index import _kept


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_the_best_are_kept_and_of_equal_ones_the_first(k: int) -> None:
    scores: NDArray[np.float32] = np.array(
        [[1, 3, 3, 0, 3], [2, 2, 2, 2, 2], [5, 4, 3, 2, 1]], np.float32
    )
    ids: NDArray[np.int64] = np.tile(np.arange(5), (3, 1))
    kept_ids, kept_scores = _kept(ids, scores, k)
    best = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :k], axis=1)
    np.testing.assert_array_equal(kept_ids, best)
    np.testing.assert_array_equal(kept_scores, np.take_along_axis(scores, best, axis=1))
