"""The k best rows of a bank from those of its parts: the same, bit for bit, as of the whole bank.

A score is a function of the pair alone, and "best score first, equal scores by smaller row" is a total
order. So the k best of all are among the k best of each part, wherever the bank is cut.

Shapes: Q queries, K answers of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ttf.mining.scan.sort_keys import NOTHING, best_first, rows_and_scores

Answers = tuple[NDArray[np.int64], NDArray[np.float32]]  # ids and scores, both (Q, K)


def keys_of(answers: Answers, first_row: int) -> NDArray[np.int64]:
    """Of a part that begins at this row; row -1 is none."""
    ids_QK, scores_QK = answers
    nothing_QK = ids_QK < 0
    scores_QK = np.where(nothing_QK, np.float32(0), scores_QK)
    keys_QK = best_first(scores_QK, np.where(nothing_QK, 0, ids_QK + first_row))
    return np.where(nothing_QK, NOTHING, keys_QK)


def merged(keys: Sequence[NDArray[np.int64]], k: int) -> NDArray[np.int64]:
    """(Q, k) keys of the best of all parts; `NOTHING` where there are fewer."""
    queries = len(keys[0])
    missing = max(0, k - sum(part.shape[1] for part in keys))
    joined = np.concatenate([*keys, np.full((queries, missing), NOTHING)], axis=1)
    joined.sort(axis=1)
    return joined[:, :k]


def beyond(keys_QK: NDArray[np.int64], first: int, best_QK: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N, 2) of the query and the key: those after the `first` of a part that may be among the best,
    where `best_QK` are the best of what all parts have told so far."""
    query_N, place_N = np.nonzero(keys_QK[:, first:] < best_QK[:, -1:])
    return np.stack([query_N, keys_QK[query_N, first + place_N]], axis=1)


def with_more(best_QK: NDArray[np.int64], more_N2: NDArray[np.int64]) -> NDArray[np.int64]:
    """The best of those and of more, as `beyond` has them, of all parts."""
    order_N = np.argsort(more_N2[:, 0], kind="stable")
    query_N, key_N = more_N2[order_N].T
    counts_Q = np.bincount(query_N, minlength=len(best_QK))
    place_N = np.arange(len(query_N)) - (np.cumsum(counts_Q) - counts_Q)[query_N]
    more_QM = np.full((len(best_QK), int(counts_Q.max(initial=0))), NOTHING)
    more_QM[query_N, place_N] = key_N
    return merged([best_QK, more_QM], best_QK.shape[1])


def best_of(
    keys_QK: NDArray[np.int64], k: int, ceilings_Q: NDArray[np.float32] | None = None
) -> Answers:
    """The first k; with ceilings, the first k of those whose score is below that of the query."""
    ids_QK, scores_QK = rows_and_scores(keys_QK)
    if ceilings_Q is None:
        return ids_QK[:, :k], scores_QK[:, :k]
    keeps_QK = (scores_QK < ceilings_Q[:, None]) & (ids_QK >= 0)
    keys_QK = np.where(keeps_QK, keys_QK, NOTHING)
    return rows_and_scores(merged([keys_QK], k))
