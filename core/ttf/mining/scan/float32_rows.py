"""Float32 rows of a bank, checked to be finite, and the exact scores of single pairs.

Shared by every miner: blocks of a bank, an exact scan for queries that an index or a first pass
could not answer, and an error if memory is short. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.vectors import row_norms, to_float32
from ttf.errors import BadData, ConfigError
from ttf.mining.scan.executors import executor
from ttf.text.numbers import size

if TYPE_CHECKING:
    from ttf.mining.scan.bf16_bank import HalfBank

_Bank = TypeVar("_Bank")
_SPAN = 8192
_BLOCK_ROWS = 2048
_SCAN_ROWS = 4096
_SCAN_QUERIES = 256
# Twice the largest difference of two float32 dot products, per dimension and unit of length: each
# is off by at most D half units in the last place.
_ROUNDING = 4 * 2.0**-24


def read_float32(
    source: VectorSource, start: int, stop: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Returns rows as C-contiguous, aligned float32 that the caller owns; never a view of the file.

    Raises BadData that names the first row that is not finite.
    """
    rows = np.empty((stop - start, source.shape[1]), np.float32) if out is None else out
    if source.dtype == "float32":
        source.read(start, stop, out=rows)
    else:
        rows[:] = to_float32(source.read(start, stop), source.dtype)
    require_finite(rows, np.arange(start, stop), source)
    return rows


def gather_float32(source: VectorSource, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Some rows as C-contiguous float32; raises BadData like `read_float32`."""
    rows = np.ascontiguousarray(to_float32(source.gather(ids), source.dtype))
    require_finite(rows, ids, source)
    return rows


def require_finite(rows: NDArray[np.float32], ids: NDArray[np.int64], source: VectorSource) -> None:
    """Raises BadData that names the first row with NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum()
    if np.isfinite(total):  # one pass; a sum that overflows is looked at again
        return
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if wrong.size:
        raise BadData(
            f"{source.name}[{ids[wrong[0]]}] in {source.uri} is not finite (NaN or infinite).",
            hint=f"To list all such rows: ttf data inspect --full {source.uri}",
        )


def pair_scores(rows_CD: NDArray[np.float32], q_D: NDArray[np.float32]) -> NDArray[np.float32]:
    """The dot product of each row with the query, or with a query of its own (C, D); more
    dimensions are broadcast.

    Each pair is computed by itself: other pairs, and how the work is split, do not change its
    rounding. Long rows are summed in spans, because libraries split longer sums among threads, in
    an order of their own.
    """
    dim = q_D.shape[-1]
    if dim <= _SPAN:
        return np.vecdot(rows_CD, q_D)  # type: ignore[no-any-return]
    total = np.zeros(np.broadcast_shapes(rows_CD.shape, q_D.shape)[:-1], np.float32)
    for start in range(0, dim, _SPAN):
        span = slice(start, start + _SPAN)
        total += np.vecdot(rows_CD[..., span], q_D[..., span])
    return total


class Best:
    # Offer rows in ascending order: of equal scores the earlier row wins.
    def __init__(self, query: NDArray[np.float32], k: int, ceiling: float | None = None) -> None:
        self._query = query
        self._k = k
        self._ceiling = ceiling  # Only scores below count.
        self.above = 0
        self.ids = np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)

    @property
    def least(self) -> float:
        return float(self.scores[-1]) if len(self.scores) == self._k else -np.inf

    def offer(self, rows_CD: NDArray[np.float32], ids_C: NDArray[np.int64]) -> None:
        score_C = pair_scores(rows_CD, self._query)
        counts_C = score_C > self.least
        if self._ceiling is not None:
            below_C = score_C < self._ceiling
            self.above += len(below_C) - int(below_C.sum())
            counts_C &= below_C
        new = np.flatnonzero(counts_C)
        scores = np.concatenate([self.scores, score_C[new]])
        order = np.argsort(-scores, kind="stable")[: self._k]
        self.scores = scores[order]
        self.ids = np.concatenate([self.ids, ids_C[new]])[order]

    def leave(self, num: int) -> None:
        self.ids, self.scores = self.ids[:num], self.scores[:num]


def scan_one_by_one(
    bank: HalfBank,
    queries: NDArray[np.float32],
    k: int,
    threads: int,
    ceilings: NDArray[np.float32] | None = None,
    within: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows of each query, by definition; as slow as the memory is."""
    limits = [None] * len(queries) if ceilings is None else ceilings.tolist()
    best = [Best(query, k, limit) for query, limit in zip(queries, limits, strict=True)]
    with executor(threads, threads) as pool:
        for start in range(0, bank.shape[0], _BLOCK_ROWS):
            rows_ND = bank.full(start, min(start + _BLOCK_ROWS, bank.shape[0])).numpy()
            ids_N = np.arange(start, start + len(rows_ND))
            for _ in pool.map(lambda one, rows=rows_ND, ids=ids_N: one.offer(rows, ids), best):
                pass
    if within is not None:
        for one in best:
            one.leave(max(0, within - one.above))
    return _answers(best, k)


def float32_blocks(
    source: VectorSource, num_rows: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yields (first row, rows); each block is valid until the next one is asked for.

    Raises BadData that names the first row that is not finite.
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

    A matrix product gives equal rows different scores, depending on their position in it. So it
    only rules out rows that cannot be among the best; the others are scored one by one.
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
    return _answers(best, k)


def _answers(best: list[Best], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    ids = np.full((len(best), k), -1, np.int64)
    scores = np.full((len(best), k), -np.inf, np.float32)
    for number, one in enumerate(best):
        ids[number, : len(one.ids)], scores[number, : len(one.ids)] = one.ids, one.scores
    return ids, scores


def require_memory(needed: int, budget: int, what: str) -> None:
    """Raises ConfigError, with the figures in bytes, if `what` does not fit the budget."""
    if needed > budget:
        raise ConfigError(
            f"{what} needs about {size(needed)} of memory, but the budget is {size(budget)}.",
            hint=(
                f"Set memory.budget = '{-(-needed // 2**20)}MiB', or use the miner 'exact', "
                "which does not load the bank into memory."
            ),
        )


def require_bank(source: _Bank | None) -> _Bank:
    """The bank of a miner; ConfigError before `build` or `load`, and after `close`."""
    if source is None:
        raise ConfigError(
            "There is no bank to search: the model or the miner is closed, or the miner was neither "
            "built nor loaded.",
            hint="Open a model again: ttf.load(RUN_DIR). Of a miner, call build or load before search.",
        )
    return source
