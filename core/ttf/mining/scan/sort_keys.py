"""Floating-point numbers as integers of the same order: these sort several times faster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROW_BITS = 32
_ROW_MASK = np.int64(2**_ROW_BITS - 1)


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
    """The inverse of `best_first`."""
    return keys & _ROW_MASK, unordered(~(keys >> _ROW_BITS).astype(np.int32))


def kth_largest(
    query_C: NDArray[np.int16], value_C: NDArray[np.float32], num: int, k: int
) -> NDArray[np.float32]:
    """The k-th largest value of each of `num` queries, -inf if there are fewer."""
    counts_T = np.bincount(query_C, minlength=num)
    key_C = query_C.astype(np.int64) << _ROW_BITS
    key_C += ordered(value_C)  # negative ones borrow from the query: still in order
    key_C.sort()
    enough_T = counts_T >= k
    kth_T = np.full(num, -np.inf, np.float32)
    places = np.cumsum(counts_T)[enough_T] - k
    kth_T[enough_T] = unordered(key_C[places].astype(np.int32))  # the low half
    return kth_T
