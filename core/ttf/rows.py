"""What every miner needs of a bank: float32 blocks, an exact scan for what an index cannot answer,
and an honest refusal where memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.errors import ConfigError
from ttf.scan.rows import read_float32

_Bank = TypeVar("_Bank")
_SCAN_ROWS = 4096
_SCAN_QUERIES = 256


def float32_blocks(
    source: VectorSource, num_rows: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(first row, rows), each block valid until the next one is asked for.

    Raises BadData naming the first row that is not finite.
    """
    total = source.shape[0]
    buffer = np.empty((min(num_rows, total), source.shape[1]), np.float32)
    for start in range(0, total, num_rows):
        stop = min(start + num_rows, total)
        yield start, read_float32(source, start, stop, buffer[: stop - start])


def exact_search(
    source: VectorSource, queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The exact answer for the few queries an index could not answer; ties by smaller id."""
    k = min(k, source.shape[0])
    ids = np.zeros((len(queries), k), np.int64)
    scores = np.full((len(queries), k), -np.inf, np.float32)
    for start, block_ND in float32_blocks(source, _SCAN_ROWS):
        block_ids = np.arange(start, start + len(block_ND))
        for first in range(0, len(queries), _SCAN_QUERIES):
            here = slice(first, first + _SCAN_QUERIES)
            score_QN = queries[here] @ block_ND.T
            all_scores = np.concatenate([scores[here], score_QN], axis=1)
            all_ids = np.concatenate(
                [ids[here], np.broadcast_to(block_ids, score_QN.shape)], axis=1
            )
            # What came earlier has the smaller id, so a stable sort breaks ties as promised.
            best = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
            scores[here] = np.take_along_axis(all_scores, best, axis=1)
            ids[here] = np.take_along_axis(all_ids, best, axis=1)
    return ids, scores


def require_memory(needed: int, budget: int, what: str) -> None:
    """Raises ConfigError, with the figures in bytes, where `what` cannot fit what a run granted."""
    if needed > budget:
        raise ConfigError(
            f"{what} needs about {_size(needed)} of memory, but the budget is {_size(budget)}.",
            hint=f"Raise it (memory.budget = '{-(-needed // 2**20)}MiB'), or use the miner "
            "'exact', which reads the bank where it lies.",
        )


def require_bank(source: _Bank | None) -> _Bank:
    """The bank of a miner; ConfigError before `build` or `load`, and after `close`."""
    if source is None:
        raise ConfigError(
            "This miner has no bank to search: it was not built, or it is closed.",
            hint="Call build or load before search, and search before close.",
        )
    return source


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.1f} MiB"
