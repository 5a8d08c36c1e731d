"""A data set as training sees it: two splits of usable pairs, and the bank of documents."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, VectorSource
from ttf.data.queries import Queries, QueryBatch
from ttf.data.refs import VectorRef


@dataclass(frozen=True, kw_only=True)
class Split:
    """The usable pairs of a split; row i of it is row `keep[i]` of the files."""

    name: str
    queries: Queries
    positives: NDArray[np.int64]
    keep: NDArray[np.int64]
    left_out: int

    def __len__(self) -> int:
        return len(self.keep)

    def batch(self, rows: NDArray[np.int64]) -> QueryBatch:
        return self.queries.batch(self.keep[rows])

    def known(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bank rows of the known positives, (B, P), padded with -1."""
        return self.positives[self.keep[rows]]


@dataclass(kw_only=True)
class Dataset:
    """An open data set; owns its stores. `bank` is a VectorSource of documents."""

    train: Split
    val: Split
    bank: VectorSource
    bank_at: VectorRef
    bank_rows: NDArray[np.int64] | None
    """Which rows of `bank_at` are the bank; None: all."""
    bank_ids: NDArray[np.int64] | None
    notes: list[str]
    stores: list[Store] = field(repr=False)

    def bank_ref(self, folder: Path, *, unit: bool) -> VectorRef:
        """A reference another process can open; what it needs for that is written to `folder`."""
        if self.bank_rows is None:
            return dataclasses.replace(self.bank_at, unit=unit)
        path = folder / "bank-rows.npy"
        np.save(path, self.bank_rows)
        return dataclasses.replace(self.bank_at, unit=unit, rows_path=str(path.resolve()))

    @property
    def fingerprint(self) -> str:
        parts = [
            s.fingerprint()
            for split in (self.train, self.val)
            for s in (split.queries.source, split.queries.context)
            if s is not None
        ]
        parts += [
            self.bank.fingerprint(),
            hashlib.sha256(self.train.positives.tobytes()).hexdigest(),
        ]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    @property
    def distinct_documents(self) -> int:
        known = self.train.positives[self.train.keep]
        return len(np.unique(known[known >= 0]))

    def check_unchanged(self) -> None:
        for store in self.stores:
            store.check_unchanged()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
