"""Base of the faiss and hnswlib miners: searches in tiles of queries, to bound the memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf import MinerContext, StorageError, VectorSource, require_bank, require_memory

Answer = tuple[NDArray[np.int64], NDArray[np.float32]]  # (ids, scores), both (queries, k)
_TILE = 4096


class TiledMiner(ABC):
    def __init__(self, options: Any, context: MinerContext) -> None:
        self._options = options
        self._context = context
        self._index: Any = None
        self._source: VectorSource | None = None

    def search(self, queries: NDArray[np.float32], k: int) -> Answer:
        source = require_bank(self._source)
        k = min(k, source.shape[0])
        ids = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _TILE):
            here = slice(start, start + _TILE)
            tile = np.ascontiguousarray(queries[here], np.float32)
            ids[here], scores[here] = self._answer(source, tile, k)
        return ids, scores

    def close(self) -> None:
        self._index = self._source = None

    @abstractmethod
    def _answer(self, source: VectorSource, queries: NDArray[np.float32], k: int) -> Answer:
        """Searches one tile; its rows are contiguous."""


def require_room(context: MinerContext, source: VectorSource, size: int, what: str) -> None:
    """Raises ConfigError if an index of `size` bytes does not fit the budget."""
    rows, dim = source.shape
    require_memory(size, context.budget_bytes, f"The {what} of {rows:,} x {dim} vectors")


def not_written(what: str, file: Path, error: Exception) -> StorageError:
    return StorageError(
        f"The {what} could not be written to {file}: {error}",
        hint="Free some space, or set TTF_HOME to a folder on another disk.",
    )
