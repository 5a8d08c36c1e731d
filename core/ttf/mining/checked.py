"""The one place where answers of a miner are believed: shapes, ids and scores are checked here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner
from ttf.errors import BadAnswer, BadData


def checked_search(
    miner: Miner, queries: NDArray[np.float32], k: int, rows: int, *, name: str
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`miner.search` of a bank with `rows` rows. Raises BadAnswer, naming the miner and the query.

    Approximate libraries read damaged memory without complaint: an id out of range is a fault
    that must not reach the trainer.
    """
    bad = np.flatnonzero(~np.isfinite(queries).all(axis=1))
    if bad.size:
        raise BadData(
            f"Query {bad[0]} of {len(queries)} holds NaN or infinity ({bad.size} such in all).",
            hint="Look at them with: ttf data verify FILE",
        )
    ids, scores = miner.search(queries, k)
    expected = (len(queries), min(k, rows))
    for what, array, dtype in (("ids", ids, np.int64), ("scores", scores, np.float32)):
        if array.shape != expected or array.dtype != dtype:
            raise BadAnswer(
                name,
                f"The miner {name!r} returned {what} as {array.dtype} {array.shape}, "
                f"expected {np.dtype(dtype)} {expected}.",
            )
    _check_ids(ids, rows, name)
    wrong = np.argwhere(~np.isfinite(scores))
    if wrong.size:
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} gave query {query} the score {scores[query, rank]} at rank {rank}.",
        )
    return ids, scores


def _check_ids(ids: NDArray[np.int64], rows: int, name: str) -> None:
    wrong = np.argwhere((ids < 0) | (ids >= rows))
    if wrong.size:
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} answered query {query} with row {ids[query, rank]} at rank "
            f"{rank}, but the bank has rows 0 to {rows - 1} ({len(wrong):,} such ids in all).",
        )
    ordered = np.sort(ids, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        query, place = twice[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} answered query {query} with row {ordered[query, place]} twice.",
        )
