"""Whether the library of a format answers what `ttf search` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.vectors import to_float32

TOLERANCE: Final = 1e-5
"""Of scores, relative to the largest score where that is above 1 (similarity "dot")."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """`same`: the share of the queries with the same k best documents."""

    same: float
    max_difference: float
    first_other: int  # A query with other documents; -1: none.


def tolerance(scores: NDArray[np.float32]) -> float:
    """The difference that rounding explains for scores of this size."""
    largest = float(np.abs(scores).max()) if scores.size else 0.0
    return TOLERANCE * max(1.0, largest)


def answers_agree(
    queries: NDArray[np.float32],
    documents: VectorSource,
    ours: tuple[NDArray[np.int64], NDArray[np.float32]],
    theirs: tuple[NDArray[np.int64], NDArray[np.float32]],
) -> Agreement:
    """Compares the k best documents of each query as sets. A document that only one of the two has
    counts as the same if its score is within the tolerance of the k-th."""
    our_rows, our_scores = ours
    their_rows, their_scores = theirs
    allowed = tolerance(our_scores)
    difference = float(np.abs(our_scores - their_scores).max(initial=0.0))
    other = np.array(
        [
            not _same(queries[i], documents, our_rows[i], float(our_scores[i, -1]), row, allowed)
            for i, row in enumerate(their_rows)
        ],
        dtype=bool,
    )
    return Agreement(
        same=1.0 - float(other.mean()) if len(other) else 1.0,
        max_difference=difference,
        first_other=int(np.argmax(other)) if other.any() else -1,
    )


def _same(
    query: NDArray[np.float32],
    documents: VectorSource,
    ours: NDArray[np.int64],
    last: float,
    theirs: NDArray[np.int64],
    allowed: float,
) -> bool:
    mine, yours = set(ours.tolist()), set(theirs.tolist())
    if len(yours) != len(theirs):  # one document twice
        return False
    differing = np.array(sorted(mine ^ yours), np.int64)
    if not len(differing):
        return True
    if differing[0] < 0 or differing[-1] >= documents.shape[0]:
        return False
    vectors = to_float32(documents.gather(differing), documents.dtype).astype(np.float64)
    scores = vectors @ query.astype(np.float64)
    return bool((np.abs(scores - last) <= allowed).all())


def equal_bits(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> bool:
    return ours.shape == theirs.shape and bool(
        np.array_equal(ours.view(np.uint32), np.ascontiguousarray(theirs).view(np.uint32))
    )


def largest_difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Infinite for other shapes or numbers that are not finite."""
    if ours.shape != theirs.shape or not np.isfinite(theirs).all():
        return float("inf")
    return float(np.abs(ours - theirs).max(initial=0.0))
