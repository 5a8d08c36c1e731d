"""A column of a table, read by rows: pieces are decoded as a whole, and the last ones are kept."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import numpy_dtype
from ttf_storage._stored_rows import StoredRows
from ttf_storage._table_columns import Layout, rows_of
from ttf_storage._table_files import Pieces

KEPT_BYTES: Final = 64 << 20
DTYPE_OF_TEXT: Final = "U"
"""What `describe` says of strings: numpy's letter, because their length is not known."""


class Kept:
    """The decoded pieces of all columns of a store, least recently used first."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[str, int], NDArray[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, column: str, number: int, decode: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        key = column, number
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
                return self._pieces[key]
        rows = decode(number)
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = rows
                self._bytes += rows.nbytes
            while self._bytes > KEPT_BYTES and len(self._pieces) > 1:
                self._bytes -= self._pieces.popitem(last=False)[1].nbytes
        return rows

    def clear(self) -> None:
        with self._lock:
            self._pieces.clear()
            self._bytes = 0


class TableRows(StoredRows):
    """`pieces`: of the column; `sample`: bytes that tell files apart."""

    def __init__(
        self,
        name: str,
        uri: str,
        layout: Layout,
        pieces: Pieces,
        kept: Kept,
        sample: Callable[[], Iterable[bytes]],
    ) -> None:
        super().__init__(name, uri, (int(pieces.bounds[-1]), *layout.tail), layout.dtype)
        self.held = "" if layout.held == layout.dtype else layout.held
        self._layout, self._pieces, self._kept, self._sample = layout, pieces, kept, sample
        self._where = f"{uri}: the array {name!r}"
        # Arrow files: a piece is a view of the map, unless its type is another one.
        self._direct = pieces.mapped and not self.held
        self.mappable = self._direct

    @property
    def slow_rows(self) -> str:
        """What the user should know before random rows are read; empty if that is fast."""
        size = self.shape[0] * self._row_bytes
        if self._direct or size <= KEPT_BYTES:
            return ""
        return (
            f"{self.name} of {self.uri} lies in compressed or encoded pieces. To read one row, all "
            f"rows before it in its row group are decoded, and only {KEPT_BYTES >> 20} MiB of "
            f"{size / (1 << 20):,.0f} MiB are kept, so training on it is very slow."
        )

    def decoded(self, number: int) -> NDArray[Any]:
        """A piece, not kept."""
        first = int(self._pieces.bounds[number])
        return rows_of(self._pieces.piece(number), self._layout, first, self._where)

    @property
    def num_pieces(self) -> int:
        return len(self._pieces.bounds) - 1

    @property
    def _row_bytes(self) -> int:
        return math.prod(self.shape[1:], start=numpy_dtype(self.dtype).itemsize)

    def _digest(self) -> str:
        known = self.name, self.shape, self.dtype
        digest = hashlib.blake2b(repr(known).encode(), digest_size=16)
        for part in self._sample():
            digest.update(part)
        return digest.hexdigest()

    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        piece = np.searchsorted(self._pieces.bounds, rows, side="right") - 1
        order = np.argsort(piece, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(piece[order])) + 1):
            number = int(piece[part[0]])
            into[part] = self._piece(number)[rows[part] - self._pieces.bounds[number]]

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        number = int(np.searchsorted(self._pieces.bounds, start, side="right")) - 1
        done = start
        while done < stop:
            low, high = map(int, self._pieces.bounds[number : number + 2])
            end = min(stop, high)
            if end > done:
                into[done - start : end - start] = self._piece(number)[done - low : end - low]
            done, number = max(done, end), number + 1

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        if not self._direct or start == stop:
            return None
        number = int(np.searchsorted(self._pieces.bounds, start, side="right")) - 1
        low, high = map(int, self._pieces.bounds[number : number + 2])
        return self._piece(number)[start - low : stop - low] if stop <= high else None

    def _piece(self, number: int) -> NDArray[Any]:
        if self._direct:
            return self.decoded(number)
        return self._kept.get(self.name, number, self.decoded)
