"""Reading: an open folder, and its arrays as rows of a map. YOUR LIBRARY goes here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from ttf import (
    ArrayMissing,
    BadData,
    DataChanged,
    DataMissing,
    DType,
    TtfError,
    checked_ids,
    checked_out,
    checked_span,
    numpy_dtype,
    suggestion,
)

from ._layout import TABLE, Entry, array_file, new_digest, read_table

_BLOCK_ROWS: Final = 4096


class Rows:
    """One array. ttf reads it from several threads at a time, in rows of any order."""

    def __init__(self, uri: str, entry: Entry, rows: NDArray[Any]) -> None:
        self.uri = uri
        self.name = entry.name
        self.shape: tuple[int, ...] = rows.shape
        self.dtype: DType = entry.dtype
        self._rows = rows
        self._digest = entry.digest

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        # The ids are checked: with mode="raise" numpy would fill a hidden copy of `into` first.
        np.take(self._rows, rows, axis=0, out=into, mode="clip")
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        if out is None:
            return self._rows[start:stop]  # a view of the map: nothing is copied
        into = checked_out(out, (stop - start, *self.shape[1:]), self.dtype, self.name)
        into[...] = self._rows[start:stop]
        return into

    def fingerprint(self) -> str:
        """Equal for equal content, wherever it lies; the writer has hashed it on its way."""
        known = repr((self.dtype, self.shape, self._digest))
        return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


class YourNameStore:
    """An open folder. What is mapped stays mapped until the last array that uses it is gone."""

    container = "your-name"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._folder = Path(uri)
        self._entries = read_table(self._folder)
        files = [array_file(self._folder, n) for n in range(len(self._entries))]
        self._identities = {file: _identity(file) for file in [self._folder / TABLE, *files]}
        self._closed = False

    def names(self) -> list[str]:
        return [entry.name for entry in self._entries]

    def source(self, name: str) -> Rows:
        if self._closed:
            raise ValueError(f"{self.uri} was closed")
        number = self._number(name)
        return Rows(self.uri, self._entries[number], self._mapped(number))

    def describe(self, name: str) -> Mapping[str, Any]:
        number = self._number(name)
        file = array_file(self._folder, number)
        facts: dict[str, Any] = {
            "shape": None,
            "dtype": self._entries[number].dtype,
            "stored": "stored",  # YOUR LIBRARY: or "zstd", where it compresses
            "mappable": False,
            "aligned": False,
            "bytes": file.stat().st_size if file.is_file() else 0,
            "problem": None,
        }
        try:
            rows = self._mapped(number)
        except TtfError as error:
            return facts | {"problem": str(error)}
        return facts | {"shape": list(rows.shape), "mappable": True, "aligned": rows.flags.aligned}

    def check_unchanged(self) -> None:
        for file, opened in self._identities.items():
            if _identity(file) != opened:
                what = "was overwritten, truncated or replaced" if file.exists() else "was deleted"
                raise DataChanged(
                    f"{file} {what} while it was in use.",
                    hint=(
                        "Never change a data file while it is read. Write a new file, then "
                        "rename it."
                    ),
                )

    def verify(self) -> Iterator[str]:
        for number, entry in enumerate(self._entries):
            try:
                rows = self._mapped(number)
            except TtfError as error:
                yield str(error)
                continue
            digest = new_digest()
            for start in range(0, len(rows), _BLOCK_ROWS):
                digest.update(rows[start : start + _BLOCK_ROWS].tobytes())
            if digest.hexdigest() != entry.digest:
                yield (
                    f"{self._where(number)} is damaged: its content has changed since it was "
                    "written."
                )

    def close(self) -> None:
        # Never unmap: an array that somebody still holds would be a segmentation fault.
        self._closed = True

    def _number(self, name: str) -> int:
        names = self.names()
        if name in names:
            return names.index(name)
        raise ArrayMissing(f"{self.uri}: there is no array {name!r}.{suggestion(name, names)}")

    def _where(self, number: int) -> str:
        return f"{self.uri}: the array {self._entries[number].name!r}"

    def _mapped(self, number: int) -> NDArray[Any]:
        """The rows as they lie in the file; BadData where that is not what the table says."""
        file, where = array_file(self._folder, number), self._where(number)
        try:
            mapped = np.lib.format.open_memmap(file, mode="r")
        except FileNotFoundError:
            raise DataMissing(f"{where} has no file {file.name}.", hint="Copy it again.") from None
        except Exception as error:  # numpy's parser meets arbitrary bytes
            raise BadData(f"{where} is damaged: {error}", hint="Copy it again.") from error
        expected = numpy_dtype(self._entries[number].dtype)
        size, found = mapped.offset + mapped.nbytes, file.stat().st_size
        if mapped.dtype != expected or not mapped.shape or not mapped.flags.c_contiguous:
            raise BadData(
                f"{where} must be an array of {expected} rows, but it has the type "
                f"{mapped.dtype} and the shape {mapped.shape}."
            )
        if size != found:
            raise BadData(f"{where} is damaged: it has {found} bytes, but it should have {size}.")
        return mapped.view(np.ndarray)


def _identity(file: Path) -> tuple[int, ...] | None:
    """What tells that a file is still the one that was opened; None: it is not there."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
