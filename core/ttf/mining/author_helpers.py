"""What every miner needs: float32 blocks of a bank, an exact scan for what an index cannot answer,
seeds of its own, and an honest refusal where memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.keyed_random import Permutation, key
from ttf.data.vectors import row_norms
from ttf.errors import ConfigError
from ttf.mining.scan.best_so_far import Best
from ttf.mining.scan.float32_rows import read_float32
from ttf.text.numbers import size

_Bank = TypeVar("_Bank")
_SCAN_ROWS = 4096
_SCAN_QUERIES = 256
_ROUNDING = 4 * 2.0**-24
"""Twice what two float32 dot products may differ by, per dimension and unit of length: each is off by
at most D half units in the last place."""


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
    """The exact answer for the few queries an index could not answer; ties by smaller id.

    A product of matrices gives equal rows different scores, depending on where they lie in it: it
    only says which rows cannot be among the best, and the others are scored one by one.
    """
    k = min(k, source.shape[0])
    best = [Best(query, k) for query in queries]
    slack_Q = _ROUNDING * source.shape[1] * row_norms(queries)
    for start, block_ND in float32_blocks(source, _SCAN_ROWS):
        ids_N = np.arange(start, start + len(block_ND))
        margin_Q = slack_Q * row_norms(block_ND).max(initial=0.0)
        for first in range(0, len(queries), _SCAN_QUERIES):
            score_QN = queries[first : first + _SCAN_QUERIES] @ block_ND.T
            for number, score_N in enumerate(score_QN, start=first):
                perhaps = np.flatnonzero(score_N >= best[number].least - margin_Q[number])
                if perhaps.size:
                    best[number].offer(block_ND[perhaps], ids_N[perhaps])
    ids = np.empty((len(queries), k), np.int64)
    scores = np.empty((len(queries), k), np.float32)
    for number, one in enumerate(best):
        ids[number], scores[number] = one.ids, one.scores
    return ids, scores


def derived_seed(seed: int, label: str) -> int:
    """A seed for one purpose, from the seed of the run: 31 bits, which every library takes. Equal
    seeds and labels give equal ones on every machine."""
    return key(seed, label) & 0x7FFFFFFF


def sampled_rows(num_rows: int, count: int, seed: int, label: str) -> NDArray[np.int64]:
    """`count` different rows of `num_rows`, ascending; the same ones for the same seed and label."""
    return np.sort(Permutation(num_rows, key(seed, label))(np.arange(count)))


def require_memory(needed: int, budget: int, what: str) -> None:
    """Raises ConfigError, with the figures in bytes, where `what` cannot fit what a run granted."""
    if needed > budget:
        raise ConfigError(
            f"{what} needs about {size(needed)} of memory, but the budget is {size(budget)}.",
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
