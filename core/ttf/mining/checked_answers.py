"""Checks the answers of a search before anybody uses them: shapes, ids and scores.

Miners are checked here and nowhere else, by the process that searched and by the one that asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner
from ttf.errors import BadAnswer, BadData


def checked_search(
    miner: Miner, queries: NDArray[np.float32], k: int, rows: int, *, name: str
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`miner.search` of a bank with `rows` rows. Raises BadAnswer, naming the miner and the query.

    Approximate libraries read damaged memory without complaint: an id out of range is a fault that
    must not reach the trainer.
    """
    bad = np.flatnonzero(~np.isfinite(queries).all(axis=1))
    if bad.size:
        raise BadData(
            f"Query {bad[0]} of {len(queries)} contains NaN or infinity ({bad.size} such queries "
            "in total).",
            hint="To find the wrong rows: ttf data verify FILE",
        )
    ids, scores = miner.search(queries, k)
    check_answers(ids, scores, (len(queries), min(k, rows)), rows, name)
    return ids, scores


def check_answers(
    ids: NDArray[np.int64],
    scores: NDArray[np.float32],
    expected: tuple[int, int],
    rows: int,
    name: str,
    *,
    first: int = 0,
) -> None:
    for what, array, dtype in (("ids", ids, np.int64), ("scores", scores, np.float32)):
        if not isinstance(array, np.ndarray):
            raise BadAnswer(
                name,
                (
                    f"The miner {name!r} returned {what} as {type(array).__name__}, but it "
                    "must return an array."
                ),
            )
        if array.shape != expected or array.dtype != dtype:
            raise BadAnswer(
                name,
                f"The miner {name!r} returned {what} with the type {array.dtype} and the shape "
                f"{array.shape}, but it must return {np.dtype(dtype)} {expected}.",
            )
    _check_ids(ids, rows, name, first)
    if not np.isfinite(scores).all():
        query, rank = np.argwhere(~np.isfinite(scores))[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned the invalid score {scores[query, rank]} for query "
            f"{first + query} at rank {rank}.",
        )


def _check_ids(ids: NDArray[np.int64], rows: int, name: str, first: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= rows):
        wrong = np.argwhere((ids < 0) | (ids >= rows))
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ids[query, rank]} for query {first + query} at "
            f"rank {rank}, but the bank has rows 0 to {rows - 1} ({len(wrong):,} invalid ids in "
            "total).",
        )
    ordered = np.sort(ids, axis=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    if same.any():
        query, place = np.argwhere(same)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ordered[query, place]} twice for query "
            f"{first + query}.",
        )
