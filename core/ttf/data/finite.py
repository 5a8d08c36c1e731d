"""Refuses rows with NaN or infinity, by the name that they have in the user's files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttf.data.dataset import OpenBank, Split
from ttf.errors import BadData


def require_finite_queries(split: Split, rows: NDArray[np.int64], x: NDArray[np.float32]) -> None:
    """Raises BadData that names the first row whose input holds NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
    if wrong.size:
        source = split.queries.source
        raise BadData(
            f"{source.name}[{split.keep[rows[wrong[0]]]}] in {source.uri} is not finite "
            f"(NaN or infinite; {wrong.size} of the {len(rows)} checked rows).",
            hint=f"To list all such rows: ttf data inspect --full {source.uri}",
        )


def require_finite_documents(
    data: OpenBank, ids: NDArray[np.int64], vectors: NDArray[np.float32]
) -> None:
    """Raises BadData that names the first document with NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if wrong.size:
        raise BadData(
            f"{data.document_name(int(ids[wrong[0]]))} is not finite (NaN or infinite).",
            hint=f"To list all such rows: ttf data inspect --full {data.bank.uri}",
        )
