"""Validation pairs for a file that has none: drawn from its training pairs, by document.

Pairs with the same document (their first positive) stay together: a document of the validation
pairs is trained on by no pair. Items have no vectors but those that training gives them, so their
pairs are drawn one by one. Which pairs are drawn depends on the seed, on the share and on the
positives alone, so every command that opens the run's data draws the same ones.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.data.dataset import DrawnFacts, Split
from ttf.data.order import hash64, key
from ttf.errors import BadData

_SHARE: Final = 0.05
_LEAST: Final = 200
_MOST: Final = 5000
_LARGEST_SHARE: Final = 0.2  # A small file keeps most of its pairs for training.


def draw_val(
    whole: Split, share: float | Literal["auto"], seed: int, *, of_items: bool = False
) -> tuple[Split, Split, DrawnFacts]:
    """Divides the usable training pairs into training and validation pairs. Raises BadData if there
    are too few. `of_items`: the documents have no vectors before the training."""
    count = len(whole)
    if count < 2:
        raise BadData(
            f"{whole.queries.source.uri} has only {count} usable training pair, so ttf cannot use "
            "some of the pairs for validation.",
            hint="Add more pairs, or validation pairs as X_val.",
        )
    documents = whole.keep if of_items else _first_positive(whole)
    is_val, by_document = chosen_pairs(documents, whole.keep, share, seed)
    train = dataclasses.replace(whole, keep=whole.keep[~is_val], drawn=True)
    val = dataclasses.replace(whole, name="val", keep=whole.keep[is_val], left_out=0, drawn=True)
    together = "pairs of one document stay together"
    if of_items:
        together = "drawn by pair, because an item that no training pair has learns nothing"
    elif not by_document:
        together = (
            "pairs of one document may be separated, because some documents have too many pairs"
        )
    text = f"{len(val):,} of {count:,} ({len(val) / count:.1%}), {together}"
    return train, val, DrawnFacts(share=_wanted(count, share) / count, text=text)


def chosen_pairs(
    documents: NDArray[np.int64],
    rows: NDArray[np.int64],
    share: float | Literal["auto"],
    seed: int,
) -> tuple[NDArray[np.bool_], bool]:
    """Which pairs are for validation, and whether no document has pairs on both sides.

    `documents`: of each pair; `rows`: its number, by which it is drawn if documents have too many.
    """
    count = len(documents)
    wanted = _wanted(count, share)
    ids, group, sizes = np.unique(documents, return_inverse=True, return_counts=True)
    by_document = bool((sizes <= wanted).any()) and len(ids) > 1
    if not by_document:
        ids, group, sizes = rows, np.arange(count), np.ones(count, np.int64)
    chosen = _chosen(hash64(ids, key(seed, "validation pairs")), sizes, wanted)
    return chosen[group.reshape(-1)], by_document


def _wanted(count: int, share: float | Literal["auto"]) -> int:
    if share == "auto":
        pairs = min(max(round(_SHARE * count), _LEAST), _MOST, int(_LARGEST_SHARE * count))
    else:
        pairs = round(share * count)
    return min(max(pairs, 1), count - 1)


def _first_positive(split: Split) -> NDArray[np.int64]:
    known = split.positives[split.keep]
    return np.take_along_axis(known, (known >= 0).argmax(axis=1)[:, None], axis=1)[:, 0]


def _chosen(lots: NDArray[np.uint64], sizes: NDArray[np.int64], wanted: int) -> NDArray[np.bool_]:
    """A mask of groups, in the order of their lots, that together have at most `wanted` pairs."""
    order = np.argsort(lots, kind="stable")
    order = order[sizes[order] <= wanted]
    fits = np.cumsum(sizes[order]) <= wanted
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[order[fits]] = True
    return chosen
