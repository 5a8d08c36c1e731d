"""How relevant each positive is: `rel_*` beside `pos_*`. They count in nDCG, and in nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.data.named_arrays import NamedArrays
from ttf.data.vectors import FLOATS, to_float32
from ttf.errors import BadData


def grades_of(
    pairs: NamedArrays, split: str, positives: NDArray[np.int64]
) -> NDArray[np.float32] | None:
    """Of the shape of the positives, 0 where there is none; None if the file has no grades.

    Raises BadData that names the first wrong one.
    """
    name = f"rel_{split}"
    if name not in pairs:
        return None
    source = pairs[name]
    count, width = positives.shape
    fits = source.shape in ((count, width), (count,) if width == 1 else ())
    if not fits or source.dtype not in (*FLOATS, "int32", "int64"):
        raise BadData(
            f"{pairs.said(name)} in {pairs.uri} has the type {pairs.stored_type(name)} and the shape "
            f"{source.shape}. It must be numbers of the shape {positives.shape}, like pos_{split}.",
        )
    stored = source.read(0, count)
    wide = to_float32(stored, source.dtype) if source.dtype in FLOATS else stored
    grades = np.array(wide, dtype=np.float32).reshape(positives.shape)
    wrong = np.argwhere((positives >= 0) & ~(np.isfinite(grades) & (grades > 0)))
    if len(wrong):
        row, column = wrong[0]
        raise BadData(
            f"{name}[{row}, {column}] in {pairs.uri} is {grades[row, column]:g}, but the grade of a "
            f"positive must be above 0 ({len(wrong):,} wrong values in total).",
            hint=f"A document that is not relevant is no positive: -1 in pos_{split}.",
        )
    return np.where(positives >= 0, grades, np.float32(0))
