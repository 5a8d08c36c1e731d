"""Clustered rows for tests, similar to embeddings, and exact answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.data.vectors import unit_rows

DIM = 24
_CENTRES = 20


def clustered_rows(seed: int, rows: int, dim: int = DIM) -> NDArray[np.float32]:
    """Returns unit rows in loose clusters, equal for equal arguments."""
    centres = np.random.default_rng(7).standard_normal((_CENTRES, dim)).astype(np.float32)
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((rows, dim)).astype(np.float32)
    return unit_rows(centres[rng.integers(0, _CENTRES, rows)] + own)


def best_rows(bank: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Returns the exact k best, equal scores by smaller id."""
    return np.argsort(-(queries @ bank.T), axis=1, kind="stable")[:, :k]
