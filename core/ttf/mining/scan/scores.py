"""The one float32 score of a query and a row that scans return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SPAN = 8192


def pair_scores(rows_CD: NDArray[np.float32], q_D: NDArray[np.float32]) -> NDArray[np.float32]:
    """The dot product of each row with the query, or with a query of its own (C, D); each pair by
    itself: nothing else that is asked, and no way of cutting the work up, changes its rounding.
    Long rows are summed in spans: libraries share out longer ones among threads, in an order of
    their own."""
    dim = q_D.shape[-1]
    if dim <= _SPAN:
        return np.vecdot(rows_CD, q_D)  # type: ignore[no-any-return]
    total = np.zeros(len(rows_CD), np.float32)
    for start in range(0, dim, _SPAN):
        span = slice(start, start + _SPAN)
        total += np.vecdot(rows_CD[:, span], q_D[..., span])
    return total
