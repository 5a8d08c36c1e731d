"""What a search found: ids, scores, and what the ids mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf.data.dataset import OpenBank
from ttf.host.plugins import written_store


@dataclass(frozen=True, kw_only=True)
class Found:
    ids: NDArray[np.int64] | NDArray[np.str_]
    scores: NDArray[np.float32]
    ids_are: str
    """What the ids mean: the bank's own `ids`, rows of its `vectors`, or rows of Y."""
    rows: NDArray[np.int64]
    """The same documents as rows of the bank."""

    def __repr__(self) -> str:
        queries, k = self.ids.shape
        return f"Found({queries:,} queries x {k:,} documents; ids are {self.ids_are})"


def found_in(bank: OpenBank, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Found:
    if bank.bank_ids is not None:
        ids, meaning = bank.bank_ids[rows], "the ids of the bank"
    elif bank.bank_rows is None:
        ids, meaning = rows, "rows of the bank"
    else:
        parts = bank.bank.name.split("+")  # the arrays whose distinct rows are the bank
        ids, meaning = bank.bank_rows[rows], f"rows of {' followed by '.join(parts)}"
    return Found(ids=ids, scores=scores, ids_are=meaning, rows=rows)


def in_a_table(found: Found) -> tuple[NDArray[np.int64], str]:
    """The ids as a file of numbers holds them, and what they mean: rows where ids are strings."""
    if np.issubdtype(found.ids.dtype, np.integer):
        return found.ids.astype(np.int64, copy=False), found.ids_are
    return found.rows, "row numbers of the bank, not its ids, because its ids are strings"


def write_found(out: Path, found: Found) -> None:
    with written_store(str(out)) as writer:
        writer.array("ids", found.ids.shape, "int64").append(in_a_table(found)[0])
        writer.array("scores", found.scores.shape, "float32").append(found.scores)
