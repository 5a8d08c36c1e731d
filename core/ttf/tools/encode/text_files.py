"""Texts one after another in a file, as UTF-8, and where each of them begins: bounded memory."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_BUFFER_BYTES: Final = 1 << 20


class TextWriter:
    """Appends texts to `<stem>.text`, and their ends to `<stem>.ends` (int64)."""

    def __init__(self, stem: Path) -> None:
        self._text = stem.with_suffix(".text").open("wb", buffering=_BUFFER_BYTES)
        self._ends = stem.with_suffix(".ends").open("wb")
        self._waiting = array("q")
        self._position = self.count = 0

    def append(self, data: bytes) -> int:
        """The number of the text, from 0."""
        self._text.write(data)
        self._position += len(data)
        self._waiting.append(self._position)
        if len(self._waiting) * 8 >= _BUFFER_BYTES:
            self._flush_ends()
        self.count += 1
        return self.count - 1

    def _flush_ends(self) -> None:
        self._ends.write(self._waiting.tobytes())
        self._waiting = array("q")

    def close(self) -> None:
        """Does nothing the second time."""
        if not self._ends.closed:
            self._flush_ends()
            self._ends.close()
        self._text.close()


class Texts:
    """What a `TextWriter` wrote."""

    def __init__(self, stem: Path) -> None:
        self.path = stem.with_suffix(".text")
        ends = stem.with_suffix(".ends")
        self.count = ends.stat().st_size // 8
        self.ends = mapped(ends, np.int64, self.count)
        self.size_bytes = int(self.ends[-1]) if self.count else 0

    def start(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0

    def raw(self, first: int, last: int) -> list[bytes]:
        """The texts first..last, the last one left out."""
        begin = self.start(first)
        with self.path.open("rb") as file:
            file.seek(begin)
            data = file.read((self.start(last) if last else 0) - begin)
        ends = [int(end) - begin for end in self.ends[first:last]]
        return [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def read(self, first: int, last: int) -> list[str]:
        return [data.decode() for data in self.raw(first, last)]

    def block_end(self, first: int, rows: int, size_bytes: int) -> int:
        """The end of a block that begins at `first`: at most so many texts and so many bytes, but at
        least one text. It depends on nothing else."""
        stop = min(first + rows, self.count)
        fits = int(np.searchsorted(self.ends[first:stop], self.start(first) + size_bytes, "right"))
        return min(stop, first + max(1, fits))


def mapped(path: Path, dtype: type[np.generic], count: int) -> NDArray[np.int64]:
    """The numbers of a file, mapped; an empty file cannot be."""
    if not count:
        return np.empty(0, np.int64)
    return np.memmap(path, dtype, "r", shape=(count,))
