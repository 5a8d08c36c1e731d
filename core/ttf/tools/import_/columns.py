"""What every input gives: named columns that are read by blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.kept_for import times_of
from ttf.errors import BadData, DataChanged, DataMissing, EntryRefused, storage_error
from ttf.rundir.confined import open_named

_PIECES: Final = 64
_PIECE_BYTES: Final = 4096


@dataclass(frozen=True)
class Column:
    """`read(start, stop)` returns rows in `dtype`; strings for "text"."""

    name: str
    shape: tuple[int, ...]
    dtype: DType | Literal["text"]
    read: Callable[[int, int], NDArray[Any]]
    longest_text: Callable[[], int] = lambda: 0
    """Bytes of the longest string."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """An open file or server."""

    uri: str
    what: str
    """For people, e.g. "a FAISS index (flat)"."""
    columns: Mapping[str, Column]
    identity: str
    """Differs if the content does: an unfinished import of other content is not continued."""
    check_unchanged: Callable[[], None]
    close: Callable[[], None] = lambda: None
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Columns by role, if the format has them: vectors, ids, queries, positives."""
    notes: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """What else it has, and why that is no column."""


class InputFile:
    """A regular file that is read with plain reads, and whether it is still the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = open_named(path)
        except FileNotFoundError:
            raise DataMissing(f"{path}: there is no such file.", hint="Check the path.") from None
        except EntryRefused as error:
            raise BadData(str(error), hint="Name a regular file.") from error
        except OSError as error:
            raise storage_error(error, str(path)) from error
        self.size = self.file.seek(0, 2)
        self._seen = self._stat()

    def bytes_at(self, start: int, length: int) -> bytes:
        try:
            self.file.seek(start)
            return self.file.read(length)
        except OSError as error:
            raise storage_error(error, str(self.path)) from error

    def identity(self) -> str:
        """Of the size, the times, and of pieces here and there."""
        digest = hashlib.sha256(f"{self.size} {times_of(str(self.path))}".encode())
        last = max(0, self.size - _PIECE_BYTES)
        for start in sorted({last * n // (_PIECES - 1) for n in range(_PIECES)}):
            digest.update(self.bytes_at(start, _PIECE_BYTES))
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        try:
            same = self._stat() == self._seen
        except OSError:
            same = False
        if not same:
            raise DataChanged(
                f"{self.path} was changed, replaced or removed while it was imported.",
                hint="Run the same command again.",
            )

    def close(self) -> None:
        self.file.close()

    def _stat(self) -> tuple[int, ...]:
        found = self.path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def fitting(rows: NDArray[Any], dtype: np.dtype[Any], start: int, where: str) -> NDArray[Any]:
    """Rows in another type; BadData names a row whose numbers do not fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = rows.astype(dtype, copy=False)
    if rows.dtype.kind == "f":
        lost = np.isfinite(rows) & ~np.isfinite(fitted)
    elif rows.dtype.kind == "u" and dtype.kind == "i":
        lost = fitted < 0
    else:
        return fitted
    if lost.any():
        row = start + int(np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))[0])
        raise BadData(
            f"{where}: row {row} contains numbers that are too large for {dtype.name}.",
            hint="Scale the vectors, or leave such rows out.",
        )
    return fitted
