"""A column read by rows: row groups are decoded as a whole, and the last few are kept."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from ttf import DType, checked_ids, checked_out, checked_span

from ttf_storage_parquet._file import ParquetFile
from ttf_storage_parquet._layout import DIGEST, as_bytes, declared, new_digest, to_numpy

KEPT_BYTES: Final = 32 << 20


class ParquetRows:
    """`ttf.VectorSource` over one column of a file."""

    def __init__(self, file: ParquetFile, name: str) -> None:
        self.name, self.uri = name, str(file.path)
        self._where = f"{file.path}: the array {name!r}"
        self._tail, dtype = declared(file.schema.field(name), self._where)
        self.shape = (int(file.metadata.num_rows), *self._tail)
        self.dtype: DType = dtype
        self._file = file
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])
        self._kept: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self._tail), self.dtype, self.name)
        group_of = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(group_of, kind="stable")
        bounds = np.flatnonzero(np.diff(group_of[order])) + 1
        for part in np.split(order, bounds) if len(rows) else []:
            group = int(group_of[part[0]])
            into[part] = self._decoded(group)[rows[part] - self._starts[group]]
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        into = checked_out(out, (stop - start, *self._tail), self.dtype, self.name)
        first, last = np.searchsorted(self._starts, [start, stop], side="right") - 1
        for group in range(int(first), int(last) + 1 if stop > start else int(first)):
            low, high = max(start, int(self._starts[group])), min(stop, self._end(group))
            if low < high:
                at = int(self._starts[group])
                into[low - start : high - start] = self._decoded(group)[low - at : high - at]
        return into

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(repr((self.shape, self.dtype)).encode(), digest_size=16)
        digest.update((self._written_digest() or self._file.sampled()).encode())
        return digest.hexdigest()

    def verify(self) -> Iterator[str]:
        """Decodes everything, which checks the pages, and then the digest of the whole."""
        digest = new_digest(self._tail, self.dtype)
        for group in range(len(self._starts) - 1):
            digest.update(as_bytes(self._decode(group)))
        if self._written_digest() not in (None, digest.hexdigest()):
            yield f"{self._where} is not what was written: its digest differs."

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()

    def _end(self, group: int) -> int:
        return int(self._starts[min(group + 1, len(self._starts) - 1)])

    def _written_digest(self) -> str | None:
        found = (self._file.metadata.metadata or {}).get(DIGEST)
        return found.decode() if found else None

    def _decoded(self, group: int) -> NDArray[Any]:
        with self._lock:
            if group in self._kept:
                self._kept.move_to_end(group)
                return self._kept[group]
        rows = self._decode(group)
        with self._lock:
            self._kept[group] = rows
            kept = sum(held.nbytes for held in self._kept.values())
            while kept > KEPT_BYTES and len(self._kept) > 1:
                kept -= self._kept.popitem(last=False)[1].nbytes
        return rows

    def _decode(self, group: int) -> NDArray[Any]:
        return to_numpy(self._file.column(group, self.name), self._tail, self._where)
