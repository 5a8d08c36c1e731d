"""Float32 rows of a bank: blocks and single ones, our own memory, finite or refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.vectors import to_float32
from ttf.errors import BadData


def read_float32(
    source: VectorSource, start: int, stop: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Rows as C-contiguous, aligned float32 of our own; never a view of the file.

    Raises BadData naming the first row that is not finite.
    """
    rows = np.empty((stop - start, source.shape[1]), np.float32) if out is None else out
    if source.dtype == "float32":
        source.read(start, stop, out=rows)
    else:
        rows[:] = to_float32(source.read(start, stop), source.dtype)
    require_finite(rows, np.arange(start, stop), source)
    return rows


def gather_float32(source: VectorSource, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Some rows as C-contiguous float32; raises BadData like `read_float32`."""
    rows = np.ascontiguousarray(to_float32(source.gather(ids), source.dtype))
    require_finite(rows, ids, source)
    return rows


def require_finite(rows: NDArray[np.float32], ids: NDArray[np.int64], source: VectorSource) -> None:
    """Raises BadData naming the first row that holds NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum()
    if np.isfinite(total):  # one pass; a sum that overflows is looked at again
        return
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if wrong.size:
        raise BadData(
            f"{source.name}[{ids[wrong[0]]}] in {source.uri} is not finite (NaN or infinite).",
            hint=f"See all of them: ttf data inspect --full {source.uri}",
        )
