"""Which bank rows are a pair's positives: from pos_*, or by exact match of Y's row in the bank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.named_arrays import NamedArrays
from ttf.data.order import hash64
from ttf.data.text_arrays import stored_kind
from ttf.data.vectors import to_float32
from ttf.errors import BadData

UNKNOWN = -1
_COMPARED_AT_ONCE = 8192
# Fits a core's cache: hashing is then limited by arithmetic, not by memory.
_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True, kw_only=True)
class Positives:
    """Bank rows (N, P), padded with -1; a pair without any is not used for training and metrics."""

    rows: NDArray[np.int64]
    matched_by_value: int = 0

    @property
    def usable(self) -> NDArray[np.int64]:
        """The pairs that have a positive."""
        return np.flatnonzero((self.rows >= 0).any(axis=1)).astype(np.int64)

    @property
    def unmatched(self) -> int:
        return len(self.rows) - len(self.usable)


def named_rows(pairs: NamedArrays, name: str, bank_rows: int) -> Positives:
    """Reads pos_* and checks every value; raises BadData that names the first wrong row."""
    kind = pairs.stored_type(name)
    try:
        source = pairs[name]
    except BadData as error:
        if stored_kind(pairs.store, pairs.stored_name(name)) not in ("U", "S", "O"):
            raise
        raise BadData(
            f"{pairs.said(name)} in {pairs.uri} has the type {kind}, but it must contain row "
            "numbers of the bank.",
            hint=(
                "If these are ids of documents, look up their rows: row = {id: n for n, id in "
                f'enumerate(bank["ids"])}}; {name} = numpy.array([row[id] for id in {name}])'
            ),
        ) from error
    shape = source.shape
    if source.dtype not in ("int32", "int64") or len(shape) not in (1, 2) or 0 in shape:
        as_rows = f'numpy.where(numpy.isnan({name}), -1, {name}).astype("int64")'
        convert = f"Convert it: {name} = {as_rows}. " if "float" in kind else ""
        raise BadData(
            f"{source.name} in {source.uri} has the type {kind} and the shape {shape}. It "
            "must be int64 with the shape (N,) or (N, P), and it must not be empty.",
            hint=(
                f"{convert}Each value must be a row number of the bank, or -1 if the positive is "
                "unknown."
            ),
        )
    rows = np.array(source.read(0, shape[0]), dtype=np.int64).reshape(shape[0], -1)
    wrong = np.argwhere((rows < UNKNOWN) | (rows >= bank_rows))
    if len(wrong):
        from_one = rows.max() == bank_rows and not (rows == 0).any() and not _has_zero(pairs, name)
        row, column = wrong[0]
        place = f"{row}, {column}" if len(shape) == 2 else f"{row}"
        raise BadData(
            f"{source.name}[{place}] in {source.uri} is {rows[row, column]}, but the bank has "
            f"only {bank_rows:,} rows ({len(wrong):,} wrong values in total).",
            hint=(
                f"Do your row numbers start at 1? ttf counts rows from 0: {name} - 1."
                if from_one
                else "Use -1 for an unknown positive, or use the bank for which these row numbers "
                "were made."
            ),
        )
    return Positives(rows=_without_repeats(rows))


def _has_zero(pairs: NamedArrays, name: str) -> bool:
    """True if the positives of the other split have row 0: then rows are counted from 0."""
    other = "pos_val" if name == "pos_train" else "pos_train"
    if other not in pairs:
        return False
    source = pairs[other]
    return source.dtype in ("int32", "int64") and bool((source.read(0, source.shape[0]) == 0).any())


def _without_repeats(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    # A positive that is given twice for one pair counts once: the repetition becomes -1.
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    again = np.zeros(rows.shape, dtype=np.bool_)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return np.where(again, UNKNOWN, rows)


def match(targets: VectorSource, bank: VectorSource) -> Positives:
    """Finds each target vector in the bank by value; the first of equal bank rows wins."""
    target_hashes = row_hashes(targets)
    bank_hashes = row_hashes(bank)
    order = np.argsort(bank_hashes, kind="stable")
    place = np.searchsorted(bank_hashes, target_hashes, sorter=order)
    candidate = order[np.minimum(place, len(order) - 1)]
    hit = np.flatnonzero(bank_hashes[candidate] == target_hashes)
    rows = np.full(len(target_hashes), UNKNOWN, dtype=np.int64)
    for chunk in np.array_split(hit, len(hit) // _COMPARED_AT_ONCE + 1):
        equal = (_f32(targets, chunk) == _f32(bank, candidate[chunk])).all(axis=1)
        rows[chunk[equal]] = candidate[chunk[equal]]
    return Positives(rows=rows[:, None], matched_by_value=int((rows >= 0).sum()))


def distinct_rows(targets: VectorSource) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (distinct rows, each target's position among them): Y as its own bank."""
    _, first, inverse = np.unique(row_hashes(targets), return_index=True, return_inverse=True)
    by_row = np.argsort(first)
    rank = np.empty_like(by_row)
    rank[by_row] = np.arange(len(by_row))
    return first[by_row].astype(np.int64), rank[inverse.reshape(-1)].astype(np.int64)


def _f32(source: VectorSource, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    return to_float32(source.gather(ids), source.dtype)


def row_hashes(source: VectorSource) -> NDArray[np.uint64]:
    """A 64-bit hash of each row's float32 values, so that float16 and float32 copies agree."""
    count, width = source.shape
    weights = hash64(np.arange(width, dtype=np.int64), key=1) | np.uint64(1)
    out = np.empty(count, dtype=np.uint64)
    step = max(1, _BLOCK_BYTES // (width * 4))
    for start in range(0, count, step):
        stop = min(start + step, count)
        block = to_float32(source.read(start, stop), source.dtype)
        mixed = (block + np.float32(0.0)).view(np.uint32) * weights  # -0.0 equals 0.0
        mixed ^= mixed >> np.uint64(32)
        mixed *= weights
        out[start:stop] = mixed.sum(axis=1, dtype=np.uint64)
    return out
