"""Floating-point numbers as integers of the same order: these sort several times faster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROW_BITS = 32
_ROW_MASK = np.int64(2**_ROW_BITS - 1)
NOTHING = np.iinfo(np.int64).max  # After all keys.


def ordered(values: NDArray[np.float32]) -> NDArray[np.int32]:
    # NaN is not supported; both zeros are equal.
    return _turned((values + np.float32(0)).view(np.int32))


def unordered(values: NDArray[np.int32]) -> NDArray[np.float32]:
    return _turned(values).view(np.float32)


def _turned(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def best_first(score: NDArray[np.float32], row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys in ascending order are: best score first, equal scores by smaller row."""
    return (~ordered(score)).astype(np.int64) << _ROW_BITS | row


def rows_and_scores(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The inverse of `best_first`; `NOTHING` is row -1 with the score -inf."""
    rows, scores = keys & _ROW_MASK, unordered(~(keys >> _ROW_BITS).astype(np.int32))
    nothing = keys == NOTHING
    if nothing.any():
        rows[nothing], scores[nothing] = -1, -np.inf
    return rows, scores


def kth_largest(
    query_C: NDArray[np.int16], value_C: NDArray[np.float32], num: int, *ranks: int
) -> list[NDArray[np.float32]]:
    """For each k of `ranks`, the k-th largest value of each of `num` queries, -inf if there are
    fewer."""
    ends_T = np.cumsum(np.bincount(query_C, minlength=num))
    counts_T = np.diff(ends_T, prepend=0)
    key_C = query_C.astype(np.int64) << _ROW_BITS
    key_C += ordered(value_C)  # negative ones borrow from the query: still in order
    key_C.sort()
    found = []
    for k in ranks:
        kth_T = np.full(num, -np.inf, np.float32)
        enough_T = counts_T >= k
        kth_T[enough_T] = unordered(key_C[ends_T[enough_T] - k].astype(np.int32))  # the low half
        found.append(kth_T)
    return found


_PLACE_BITS = 31
_SCORE_BITS = 22


def in_order(query_C: NDArray[np.int16], score_C: NDArray[np.float32]) -> NDArray[np.int64]:
    """Places in the order of the queries, of each the highest scores first. Scores that differ only
    after the 22nd bit count as equal."""
    highest = np.int64(2**31 - 1)
    down_C = (highest - ordered(score_C)) >> (32 - _SCORE_BITS)
    key_C = query_C.astype(np.int64) << _SCORE_BITS | down_C
    key_C <<= _PLACE_BITS
    key_C |= np.arange(len(query_C))
    key_C.sort()
    key_C &= 2**_PLACE_BITS - 1
    return key_C
