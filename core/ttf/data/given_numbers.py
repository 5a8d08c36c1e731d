"""Numbers of items and documents that a Python caller gives instead of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.data.dataset import Queries
from ttf.data.given_arrays import as_numpy, given_rows
from ttf.data.items import Items
from ttf.data.sources import MemorySource
from ttf.errors import BadData


def given_sessions(value: Any, lengths: Any, items: Items) -> Queries:
    """Sessions of item numbers, (N, L) with -1 as padding, or a list of sessions (L_i,)."""
    rows = given_rows(value, "The value for the queries")
    if rows.ndim != 2 or rows.dtype.kind not in "iu":
        raise BadData(
            f"The given queries have the type {rows.dtype} and the shape {rows.shape}, but this model "
            "reads numbers of items: integers of the shape (N, L), -1 for padding.",
            hint=(
                "For one session x, use an array with one row: x[None]."
                if rows.ndim == 1 and rows.size
                else "Sessions are lists of whole numbers, of at least one item each."
            ),
        )
    if lengths is not None:
        valid = np.arange(rows.shape[1]) < np.asarray(lengths)[:, None]
        rows = np.where(valid, rows, -1)
    source = MemorySource(rows.astype(np.int64), "int64", "queries", "the given array")
    found = Queries(source, items, None)
    found.check_steps(np.arange(len(rows)))
    return found


def given_documents(value: Any, rows: int) -> NDArray[np.int64]:
    """Row numbers (N,) of documents whose tower trains a row for each."""
    found = as_numpy(value, "The value for the documents")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise BadData(
            f"The given documents have the type {found.dtype} and the shape {found.shape}. The document "
            "tower of this model has a trained row for each document, so it reads their row numbers: "
            "integers of the shape (N,).",
            hint=f"For all documents: numpy.arange({rows})",
        )
    numbers = found.astype(np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < rows:
        raise BadData(
            f"The given documents are from {numbers.min()} to {numbers.max()}, but row numbers are "
            f"from 0 to {rows - 1}."
        )
    return numbers
