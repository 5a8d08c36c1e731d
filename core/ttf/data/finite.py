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
            hint=f"To list all such rows: ttf data inspect --full {source.uri}"
            + _as_padding(split, x[wrong]),
        )


def _as_padding(split: Split, wrong_WLD: NDArray[np.float32]) -> str:
    """More of the hint, if every wrong sequence ends in a step without any number."""
    queries = split.queries
    if wrong_WLD.ndim != 3 or queries.context is not None or queries.lengths is not None:
        return ""
    if not np.isnan(wrong_WLD[:, -1]).all():
        return ""
    name = queries.source.name.rpartition("_")[2]
    return (
        f". If this is padding, give the lengths: len_{name} (int64), or mask_{name} (True for each "
        "valid step)."
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
