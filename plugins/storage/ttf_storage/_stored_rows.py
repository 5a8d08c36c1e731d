"""The base of the arrays of both containers: argument checks and descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ttf import DType, TtfError, checked_ids, checked_out, checked_span

# What rows are read as, by the name of their stored type. Whole numbers stay whole: ids, positions and lengths.
READ_AS: Final[dict[str, DType]] = {
    "float64": "float32",
    "float32": "float32",
    "float16": "float16",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "uint32": "int64",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "uint8",
}


class StoredRows(ABC):
    """The rows of one array. Subclasses copy them."""

    mappable = False
    aligned = False
    fingerprint_is_whole = False  # True: it covers every byte, not a sample.
    held = ""  # The stored type, if rows are converted as they are read.

    def __init__(self, name: str, uri: str, shape: tuple[int, ...], dtype: DType) -> None:
        self.name = name
        self.uri = uri
        self.shape = shape
        self.dtype: DType = dtype
        self._fingerprint = ""

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        if into.size:
            self._take(rows, into)
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        view = self._view(start, stop) if out is None else None
        if view is not None:
            return view
        into = checked_out(out, (stop - start, *self.shape[1:]), self.dtype, self.name)
        if into.size:
            self._copy(start, stop, into)
        return into

    def fingerprint(self) -> str:
        self._fingerprint = self._fingerprint or self._digest()
        return self._fingerprint

    @abstractmethod
    def _digest(self) -> str:
        """Returns a digest of the content. Called once."""

    @abstractmethod
    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        """Copies these rows. All are within the array."""

    @abstractmethod
    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        """Copies rows start..stop."""

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        """Returns rows start..stop without a copy, or None if that is impossible."""
        return None


class RowBytes(Protocol):
    """The rows of mapped files, as bytes."""

    @property
    def on_disk(self) -> bool: ...
    def take(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None: ...
    def will_need(self, rows: NDArray[np.int64]) -> None: ...


class MappedStoredRows(StoredRows):
    """Rows gathered from maps. Their pages can be requested in advance."""

    mappable = True
    _rows: RowBytes

    def will_need(self, ids: NDArray[np.int64]) -> None:
        if 0 not in self.shape:
            self._rows.will_need(checked_ids(ids, self.shape[0], self.name))

    @property
    def on_disk(self) -> bool:
        return self._rows.on_disk

    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        self._rows.take(rows, as_bytes(into))


def as_bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns C-contiguous rows as bytes, one matrix row per row."""
    return rows.reshape(len(rows), -1).view(np.uint8)


def described(
    declared: Callable[[], Mapping[str, Any]],
    source: Callable[[], StoredRows],
    *,
    stored: str,
    size: int,
) -> dict[str, Any]:
    """For `Store.describe`: what the header declares, and whether the rows are readable."""
    facts: dict[str, Any] = {
        "shape": None,
        "dtype": None,
        "stored": stored,
        "mappable": False,
        "aligned": False,
        "bytes": size,
        "problem": None,
    }
    try:
        facts |= declared()
        rows = source()
    except TtfError as error:
        facts["problem"] = str(error)
    else:
        dtype = rows.held or rows.dtype
        facts |= {"dtype": dtype, "mappable": rows.mappable, "aligned": rows.aligned}
    return facts


@dataclass(frozen=True)
class Stream:
    """An array of any numeric type, read once from front to back, compressed or not."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    marker: str | None  # 'bfloat16' if uint16 stands for it
    blocks: Iterator[NDArray[Any]]
