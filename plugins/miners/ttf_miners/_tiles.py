"""Searches cut into tiles of queries: what a library holds for one of them stays small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Answer = tuple[NDArray[np.int64], NDArray[np.float32]]
"""(ids, scores), both (queries, k)."""
_TILE = 4096


def in_tiles(
    search: Callable[[NDArray[np.float32], int], Answer], queries: NDArray[np.float32], k: int
) -> Answer:
    """`search(tile, k)` of every tile, whose rows are contiguous, put together."""
    ids = np.empty((len(queries), k), np.int64)
    scores = np.empty((len(queries), k), np.float32)
    for start in range(0, len(queries), _TILE):
        here = slice(start, start + _TILE)
        ids[here], scores[here] = search(np.ascontiguousarray(queries[here], np.float32), k)
    return ids, scores
