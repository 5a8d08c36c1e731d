"""Texts of one kind, as they come: each distinct one gets a row, on the disk.

<name>.all.text, .ends   every text, in the order of its arrival
<name>.keys              a hash of each
<name>.text, .ends       the distinct ones, in the order of the rows
<name>.rows              the row of each arrival
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData
from ttf.tools.encode.distinct import KeyWriter, first_equal, key_of
from ttf.tools.encode.text_files import Texts, TextWriter, mapped

_BLOCK: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The distinct texts of a kind; `rows`: the row of each arrival."""

    name: str
    folder: Path
    count: int
    arrivals: int
    digest: str
    merged: int
    """Ids whose text has another id already: the first one stays."""

    @property
    def rows(self) -> NDArray[np.int64]:
        return mapped(self.folder / f"{self.name}.rows", np.int64, self.arrivals)

    @property
    def texts(self) -> Texts:
        return Texts(self.folder / self.name)

    @property
    def ids(self) -> Texts | None:
        """By row."""
        stem = self.folder / f"{self.name}-ids"
        return Texts(stem) if stem.with_suffix(".ends").exists() else None


class Collection:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._texts = TextWriter(folder / f"{name}-all")
        self._keys = KeyWriter(folder / f"{name}.keys")
        self._ids = TextWriter(folder / f"{name}-all-ids")
        self._id_keys = KeyWriter(folder / f"{name}-ids.keys")
        self._without_id = 0

    def close(self) -> None:
        for one in (self._texts, self._keys, self._ids, self._id_keys):
            one.close()

    def add(self, text: str, where: str, id: str | None = None) -> int:
        """The number of this arrival. Raises BadData if the text is no text."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise BadData(
                f"{where}: a text has half of a character (a lone surrogate) and cannot be stored.",
                hint="Write the file again with correct \\uXXXX pairs.",
            ) from error
        key = key_of(data)
        self._keys.append(key)
        name = (id or "").encode("utf-8", "replace")
        self._ids.append(name)
        self._without_id += id is None
        # Without an id of its own, a text is its own id: never that of another one.
        self._id_keys.append(key_of(b"id " + name if id is not None else b"text" + key))
        return self._texts.append(data)

    def finish(self, progress: Callable[[int, int], None]) -> Collected:
        """Raises BadData if an id stands for two texts."""
        self.close()
        firsts = first_equal(self._keys.path, self._folder / f"{self._name}.firsts")
        rows, kept = self._rows(firsts)
        several = 0
        if self._without_id < len(rows):
            several = self._require_one_text_each(rows) - int(kept.sum())
        if not self._without_id and len(rows):
            _copy(self._folder / f"{self._name}-all-ids", self._folder / f"{self._name}-ids", kept)
        target = self._folder / self._name
        digest = _copy(self._folder / f"{self._name}-all", target, kept, progress)
        for suffix in ("all.text", "all.ends", "all-ids.text", "all-ids.ends"):
            (self._folder / f"{self._name}-{suffix}").unlink()
        return Collected(
            name=self._name,
            folder=self._folder,
            count=int(kept.sum()),
            arrivals=len(rows),
            digest=digest,
            merged=max(0, several),
        )

    def _rows(self, firsts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The row of each arrival, and which arrivals are the first of their text."""
        count = len(firsts)
        if not count:
            return firsts, np.empty(0, np.bool_)
        path = self._folder / f"{self._name}.rows"
        rows: NDArray[np.int64] = np.memmap(path, np.int64, "w+", shape=(count,))
        kept = np.empty(count, np.bool_)
        before = 0
        for at in range(0, count, _BLOCK):
            part = slice(at, min(at + _BLOCK, count))
            kept[part] = firsts[part] == np.arange(part.start, part.stop)
            rows[part] = before + np.cumsum(kept[part]) - 1
            before += int(kept[part].sum())
        for at in range(0, count, _BLOCK):  # those that are not the first have the row of the first
            part = slice(at, min(at + _BLOCK, count))
            rows[part] = rows[firsts[part]]
        return rows, kept

    def _require_one_text_each(self, rows: NDArray[np.int64]) -> int:
        """Returns the number of distinct ids."""
        distinct = 0
        same = first_equal(self._id_keys.path, self._folder / f"{self._name}-ids.firsts")
        for at in range(0, len(rows), _BLOCK):
            part = slice(at, min(at + _BLOCK, len(rows)))
            distinct += int((same[part] == np.arange(part.start, part.stop)).sum())
            wrong = np.flatnonzero(rows[part] != rows[same[part]])
            if len(wrong):
                second = at + int(wrong[0])
                self._raise_two_texts(int(same[second]), second)
        return distinct

    def _raise_two_texts(self, first: int, second: int) -> None:
        texts = Texts(self._folder / f"{self._name}-all")
        ids = Texts(self._folder / f"{self._name}-all-ids")
        name = ids.read(first, first + 1)[0]
        shown = [texts.read(n, n + 1)[0][:60] for n in (first, second)]
        raise BadData(
            f"The id {name!r} stands for two different texts of the {self._name}: {shown[0]!r} and "
            f"{shown[1]!r}.",
            hint="Give each text its own id.",
        )


def _copy(
    source: Path,
    target: Path,
    kept: NDArray[np.bool_],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Writes the kept texts, and returns a hash of them."""
    texts, writer, whole = Texts(source), TextWriter(target), hashlib.sha256()
    first = 0
    while first < texts.count:
        stop = texts.block_end(first, _BLOCK, 16 << 20)
        for data, keep in zip(texts.raw(first, stop), kept[first:stop], strict=True):
            if keep:
                writer.append(data)
                whole.update(len(data).to_bytes(8, "little"))
                whole.update(data)
        first = stop
        progress(first, texts.count)
    writer.close()
    return whole.hexdigest()
