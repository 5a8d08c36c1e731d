"""The texts behind vectors, by row, without holding them in memory: bytes and where each begins."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Literal, Self, cast, overload

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData, DataMissing
from ttf.rundir.confined import open_named

_BYTES: Final = "texts.bin"
_PLACES: Final = "places.npy"
# As of inputs of `ttf data encode`: in JSON, three bytes can become an object of 70.
_MOST_LINE: Final = 12 << 20


class StoredTexts(Sequence[str]):
    """Texts in a folder: texts.bin, and places.npy with (begin, end) of each row."""

    def __init__(self, folder: Path) -> None:
        self._places: NDArray[np.int64] = np.load(folder / _PLACES, mmap_mode="r")
        size = (folder / _BYTES).stat().st_size
        self._bytes: NDArray[np.uint8] = (
            np.memmap(folder / _BYTES, np.uint8, "r") if size else np.empty(0, np.uint8)
        )

    @classmethod
    def found(cls, folder: Path) -> Self | None:
        return cls(folder) if (folder / _PLACES).is_file() else None

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        begin, end = self._places[row]
        return self._bytes[begin:end].tobytes().decode()


def store(folder: Path, texts: Iterator[tuple[int, str]], rows: int, what: str) -> None:
    """Writes the folder; `texts` are (row, text) in any order, one for each of the rows."""
    folder.mkdir()
    places = np.full((rows, 2), -1, np.int64)
    at = 0
    with (folder / _BYTES).open("wb") as out:
        for row, text in texts:
            data = text.encode()
            if not 0 <= row < rows:
                raise BadData(f"{what} has a text for row {row}, but there are {rows:,} rows.")
            places[row] = at, at + len(data)
            at += out.write(data)
    missing = np.flatnonzero(places[:, 0] < 0)
    if missing.size:
        raise BadData(
            f"{what} has no text for row {missing[0]} ({missing.size:,} of {rows:,} rows have none).",
            hint="It must have one text for each row, in the order of the vectors or with `row`.",
        )
    np.save(folder / _PLACES, places)


def lines_of(path: Path, split: Literal["train", "val"] | None) -> Iterator[tuple[int, str]]:
    """(row, text) of a .txt or .jsonl file, perhaps .gz; lines of another `split` are left out."""
    name = path.name.removesuffix(".gz")
    number = 0
    try:
        with _opened(path) as file:
            # One byte more than allowed: a packed file of a megabyte can hold a line of one GB.
            for line, raw in enumerate(iter(partial(file.readline, _MOST_LINE + 1), b""), start=1):
                text = _decoded(raw, path, line)
                if not name.endswith((".jsonl", ".json", ".ndjson")):
                    yield number, text.rstrip("\r\n")
                    number += 1
                    continue
                found = _parsed(text, path, line)
                if found is None or found.get("split", split) != split:
                    continue
                yield _row(found, number, path, line), _text(found, path, line)
                number += 1
    except FileNotFoundError:
        raise DataMissing(f"{path}: there is no such file.", hint="Check the path.") from None
    except (OSError, EOFError) as error:
        raise BadData(f"{path} could not be read: {error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with open_named(path) as file:
        if not path.name.endswith(".gz"):
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("IO[bytes]", unpacked)


def _decoded(raw: bytes, path: Path, line: int) -> str:
    if len(raw) > _MOST_LINE:
        raise BadData(f"{path}, line {line}: the line is longer than {_MOST_LINE:,} bytes.")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadData(
            f"{path}, line {line}: not UTF-8 (byte {error.start} is 0x{raw[error.start]:02x}).",
            hint=f"Convert it, e.g.: iconv -f latin1 -t utf-8 {path}",
        ) from None


def _parsed(text: str, path: Path, line: int) -> dict[str, Any] | None:
    if not text.strip():
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path}, line {line}: no JSON object ({error}).") from None
    if not isinstance(found, dict):
        raise BadData(f"{path}, line {line}: it must be a JSON object with the key `text`.")
    return found


def _row(found: dict[str, Any], number: int, path: Path, line: int) -> int:
    row = found.get("row", number)
    if not isinstance(row, int) or isinstance(row, bool):
        raise BadData(f"{path}, line {line}: `row` is {row!r}, but it must be a whole number.")
    return row


def _text(found: dict[str, Any], path: Path, line: int) -> str:
    text = found.get("text")
    if not isinstance(text, str):
        keys = ", ".join(found) or "none"
        raise BadData(f"{path}, line {line}: there is no `text` (a string). Keys: {keys}.")
    return text
