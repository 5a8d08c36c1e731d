"""The user's own hard negatives, `neg_train`: rows of the bank, some of them in each step.

Which ones are drawn depends on the seed, on the step and on the pair alone: a resumed run draws the
same ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.data.named_arrays import NamedArrays
from ttf.data.order import hash64, key
from ttf.data.positives import named_rows
from ttf.errors import BadData

NAME = "neg_train"


def own_negatives(pairs: NamedArrays, count: int, bank_rows: int) -> NDArray[np.int64] | None:
    """(N, K), -1 is padding; None if the file has none. Raises BadData for rows that the bank does not
    have."""
    if NAME not in pairs:
        return None
    rows = named_rows(pairs, NAME, bank_rows).rows
    if len(rows) != count:
        raise BadData(
            f"{pairs.said(NAME)} in {pairs.uri} has {len(rows):,} rows, but there are {count:,} train "
            "queries."
        )
    return rows


def drawn(
    known: NDArray[np.int64], rows: NDArray[np.int64], number: int, seed: int, step: int
) -> NDArray[np.int64]:
    """At most `number` negatives of each pair, (B, number), -1 is padding. `known`: all that the pairs
    `rows` have."""
    chosen = drawn_places(known, rows, number, seed, step)
    return np.take_along_axis(known, chosen, axis=1)


def drawn_places(
    known: NDArray[np.int64], rows: NDArray[np.int64], number: int, seed: int, step: int
) -> NDArray[np.int64]:
    """Their columns in `known`."""
    if known.shape[1] <= number:
        return np.broadcast_to(np.arange(known.shape[1]), known.shape)
    places = rows[:, None] * known.shape[1] + np.arange(known.shape[1])
    lots = hash64(places, key(seed, "own negatives", step))
    lots = np.where(known >= 0, lots >> np.uint64(1), np.iinfo(np.uint64).max)
    return np.argsort(lots, axis=1, kind="stable")[:, :number]
