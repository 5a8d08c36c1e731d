"""Signs that sequences are padded with something that ttf takes for a step.

Shapes: S sampled rows, L steps, D dims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.dataset import Queries, Split

# A number that ends so few sequences may be an ordinary item.
_LEAST_SHARE: Final = 0.05
_FEWEST: Final = 2


def padded_vectors(queries: Queries, x: NDArray[np.float32], where: str) -> Iterator[str]:
    """Says if sequences of vectors look padded, and nothing says how long they are."""
    if x.ndim != 3 or queries.context is not None or queries.lengths is not None:
        return
    has_steps = x.reshape(len(x), -1).any(axis=1)
    split = queries.source.name.rpartition("_")[2]
    lengths = f"len_{split} (int64), or mask_{split} (True for each valid step)"
    for step, verb, what in (
        (-1, "end", f"give the lengths: {lengths}"),
        (0, "begin", f"move it to the end, and give the lengths: {lengths}"),
    ):
        count = int((~x[:, step].any(axis=1) & has_steps).sum())
        if count:
            which = f"sequence {verb}s in a" if count == 1 else f"sequences {verb} in"
            which = which.replace("begins in", "begins with").replace("begin in", "begin with")
            yield (
                f"{where}: {count:,} of {len(x):,} checked {which} zero vector{'s' * (count > 1)}. "
                f"If this is padding, {what}. Without them, the tower reads the padding."
            )


def padded_numbers(split: Split, rows: NDArray[np.int64], where: str) -> Iterator[str]:
    """The same of sequences of row numbers or items: one number fills them all up."""
    queries = split.queries
    if queries.context is None or queries.lengths is not None or queries.length < 2:
        return
    steps_SL = np.asarray(queries.source.gather(split.keep[rows]), dtype=np.int64)
    if (steps_SL < 0).any():  # The file knows how to say it.
        return
    for ordered_SL, verb in ((steps_SL[:, ::-1], "end"), (steps_SL, "begin")):
        number, count = _filler(ordered_SL)
        if count and not (split.known(rows) == number).any():
            yield (
                f"{where}: {count:,} of {len(rows):,} checked sequences {verb} "
                f"{'in' if verb == 'end' else 'with'} the number {number}, which is in no other "
                "place and no positive. If this is padding, write -1 there: the tower reads "
                f"{number} as a step."
            )


def _filler(steps_SL: NDArray[np.int64]) -> tuple[int, int]:
    """(number, sequences that begin with it) of a number that some sequences begin with, one or
    several times, and that is nowhere else; (_, 0) if there is none."""
    values, counts = np.unique(steps_SL[:, 0], return_counts=True)
    number = int(values[counts.argmax()])
    is_it_SL: NDArray[Any] = steps_SL == number
    runs = np.where(is_it_SL.all(axis=1), steps_SL.shape[1], (~is_it_SL).argmax(axis=1))
    count = int((runs > 0).sum())
    alone = bool((is_it_SL.sum(axis=1) == runs).all())
    of_several_lengths = len(np.unique(runs[runs > 0])) > 1
    enough = count >= max(_FEWEST, _LEAST_SHARE * len(steps_SL))
    return number, count if alone and of_several_lengths and enough else 0
