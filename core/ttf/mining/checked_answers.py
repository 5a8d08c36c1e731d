"""Checks the answers of a search before anybody uses them: shapes, ids and scores.

Miners are checked here and nowhere else, by the process that searched and by the one that asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner
from ttf.errors import BadAnswer, BadData


def checked_search(
    miner: Miner,
    queries: NDArray[np.float32],
    k: int,
    rows: int,
    *,
    name: str,
    ceilings: NDArray[np.float32] | None = None,
    within: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`miner.search` of a bank with `rows` rows, or `search_below` with ceilings. Raises BadAnswer,
    naming the miner and the query.

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
    if ceilings is None:
        ids, scores = miner.search(queries, k)
    else:
        search_below = getattr(miner, "search_below", None)
        if search_below is None:
            raise BadAnswer(
                name,
                f"The miner {name!r} says that it finds the best rows below a score "
                "(MinerTraits.looks_below), but it has no method search_below.",
            )
        ids, scores = search_below(queries, k, ceilings, within)
    check_answers(ids, scores, (len(queries), min(k, rows)), rows, name, ceilings=ceilings)
    return ids, scores


def check_answers(
    ids: NDArray[np.int64],
    scores: NDArray[np.float32],
    expected: tuple[int, int],
    rows: int,
    name: str,
    *,
    first: int = 0,
    ceilings: NDArray[np.float32] | None = None,
) -> None:
    """With ceilings, answers may end with row -1 and the score -inf, and scores are below them."""
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
    nothing = np.zeros(ids.shape, np.bool_)
    if ceilings is not None:
        nothing = (ids == -1) & np.isneginf(scores)
        _check_below(scores, nothing, ceilings, name, first)
    _check_ids(ids, nothing, rows, name, first)
    finite = np.isfinite(scores) | nothing
    if not finite.all():
        query, rank = np.argwhere(~finite)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned the invalid score {scores[query, rank]} for query "
            f"{first + query} at rank {rank}.",
        )


def _check_below(
    scores: NDArray[np.float32],
    nothing: NDArray[np.bool_],
    ceilings: NDArray[np.float32],
    name: str,
    first: int,
) -> None:
    wrong = (scores >= ceilings[:, None]) & ~nothing
    wrong[:, 1:] |= nothing[:, :-1] & ~nothing[:, 1:]
    if wrong.any():
        query, rank = np.argwhere(wrong)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned the score {scores[query, rank]} for query {first + query} "
            f"at rank {rank}, but it must be below {ceilings[query]}, and rows come before the end.",
        )


def _check_ids(
    ids: NDArray[np.int64], nothing: NDArray[np.bool_], rows: int, name: str, first: int
) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= rows):
        wrong = np.argwhere(((ids < 0) & ~nothing) | (ids >= rows))
        if not len(wrong):
            return _check_twice(ids, name, first)
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ids[query, rank]} for query {first + query} at "
            f"rank {rank}, but the bank has rows 0 to {rows - 1} ({len(wrong):,} invalid ids in "
            "total).",
        )
    return _check_twice(ids, name, first)


def _check_twice(ids: NDArray[np.int64], name: str, first: int) -> None:
    ordered = np.sort(ids, axis=1)
    same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if same.any():
        query, place = np.argwhere(same)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ordered[query, place]} twice for query "
            f"{first + query}.",
        )
