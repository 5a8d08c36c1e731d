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
from ttf.data.buffers import Buffers
from ttf.data.queries import Queries, QueryBatch
from ttf.data.stacked_rows import StackedRows
from ttf.data.vector_ref import VectorRef
from ttf.data.vectors import RowView
from ttf.errors import storage_error


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

    def batch(self, rows: NDArray[np.int64], buffers: Buffers | None = None) -> QueryBatch:
        return self.queries.batch(self.keep[rows], buffers)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Says which rows `batch` will be asked for soon."""
        self.queries.will_need(self.keep[rows])

    def known(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bank rows of the known positives, (B, P), padded with -1."""
        return self.positives[self.keep[rows]]


@dataclass(kw_only=True)
class OpenBank:
    """The documents of a data set, a VectorSource; owns the stores that are open."""

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
        try:
            np.save(path, self.bank_rows)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return dataclasses.replace(self.bank_at, unit=unit, rows_path=str(path.resolve()))

    def document_name(self, row: int) -> str:
        """Where a document lies in the user's files, for messages: array, row and file."""
        source = self.bank
        if isinstance(source, RowView):
            row, source = int(source.rows[row]), source.source
        if isinstance(source, StackedRows):
            source, row = source.owner_of(row)
        return f"{source.name}[{row}] in {source.uri}"

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


@dataclass(kw_only=True)
class Dataset(OpenBank):
    """An open data set: the bank and both splits."""

    train: Split
    val: Split

    @property
    def fingerprint(self) -> str:
        """Of everything that numbers depend on: inputs, bank, positives and lengths."""
        parts = [self.bank.fingerprint()]
        for split in (self.train, self.val):
            queries = split.queries
            parts += [s.fingerprint() for s in (queries.source, queries.context) if s is not None]
            for held in (split.positives, queries.lengths):
                if held is not None:
                    parts.append(hashlib.sha256(np.ascontiguousarray(held).data).hexdigest())
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    @property
    def distinct_documents(self) -> int:
        known = self.train.positives[self.train.keep]
        return len(np.unique(known[known >= 0]))
