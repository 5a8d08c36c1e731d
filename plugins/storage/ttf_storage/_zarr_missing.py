"""Chunks of a zarr array that do not exist: never written because they hold nothing but the fill
value, or lost.

zarr reads both as the fill value and cannot tell them apart. A lost file must not become vectors of
zeros without a word, so the user says which it is (`data.missing`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf import BadData
from ttf_storage._zarr_meta import ArrayMeta

_MISSING: Final = np.uint64(2**64 - 1)  # offset of a chunk that a shard does not have
_NO_VALUES: Final = ("NaN", "Infinity", "-Infinity")
# A shape can claim any number of files; without this many of them, next to nothing is there.
_MOST_FILES: Final = 20_000


class Missing:
    """Collects the chunks of one array that do not exist."""

    def __init__(self, meta: ArrayMeta, where: str, convert: str) -> None:
        """`convert`: the command that writes a copy."""
        self.files: list[str] = []
        self.count = 0
        self._meta = meta
        self._where = where
        self._convert = convert
        self._first = ""
        self._least = ""

    def add_file(self, key: str, position: tuple[int, ...]) -> None:
        self.files.append(key)
        meta = self._meta
        first = [p * extent for p, extent in zip(position, meta.files, strict=True)]
        stop = map(
            min, (f + extent for f, extent in zip(first, meta.files, strict=True)), meta.shape
        )
        spans = zip(first, stop, meta.chunks, strict=True)
        needed = math.prod(-(-(b - a) // chunk) for a, b, chunk in spans)
        self._add(needed, f"the {'shard' if meta.index else 'chunk'} {key}", position)
        if len(self.files) > _MOST_FILES:
            raise BadData(
                f"{self._where}: {self._first}, and more than {_MOST_FILES:,} others are.",
                hint="Copy the store again, or write it with larger chunks.",
            )

    def add_chunks(self, key: str, position: tuple[int, ...], table: NDArray[np.uint64]) -> None:
        """`table`: the index of a shard."""
        absent = missing_in(table) & needed_chunks(position, self._meta)
        if absent.any():
            chunk = int(np.flatnonzero(absent)[0])
            self._add(int(absent.sum()), f"chunk {chunk} of the shard {key}", position)

    def add_some(self, count: int) -> None:
        """Chunks of a store that says only how many it has."""
        self.count += count
        # zarr counts the chunks of a shard that are beyond the end of the array, too.
        self._least = "at least " if self._meta.index else ""

    def refuse(self) -> None:
        """Raises BadData if chunks are missing."""
        if not self.count:
            return
        again = "Copy or write the store again."
        hint = (
            "If they were lost, copy or write the store again. If they held only the fill value, "
            "train with --set data.missing=fill, or convert the store: "
            f"{self._convert} --missing-is-fill"
        )
        raise BadData(
            f"{self._where}: {self._what}. Either they held nothing but the "
            f"fill value {self.fill}, which zarr does not write by default, or they were lost.",
            hint=again if self._meta.fill in _NO_VALUES else hint,
        )

    def remark(self) -> str:
        """What the user should know if the chunks are read."""
        return (
            f"{self._where}: {self._what}. ttf reads them as the fill value "
            f"{self.fill}, as you asked."
        )

    @property
    def fill(self) -> str:
        fill = self._meta.fill
        if fill is None:
            return "0"
        return f"{fill:g}" if isinstance(fill, float) else str(fill)[:40]

    @property
    def _what(self) -> str:
        extents = zip(self._meta.shape, self._meta.chunks, strict=True)
        total = math.prod(-(-length // chunk) for length, chunk in extents)
        count = f"{self._least}{self.count:,} of {total:,} chunks do not exist"
        return f"{self._first}; {count}" if self._first else count

    def _add(self, count: int, what: str, position: tuple[int, ...]) -> None:
        self.count += count
        self._first = self._first or f"{what} is missing ({_rows(position, self._meta)})"


def missing_in(table: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns which chunks a shard does not have, according to its index."""
    return np.equal(table[:, 0], _MISSING)


def needed_chunks(position: tuple[int, ...], meta: ArrayMeta) -> NDArray[np.bool_]:
    """Returns which chunks of a file overlap the array. The others need not exist."""
    per_file = chunks_per_file(meta)
    inside = np.ones((1,) * len(per_file), np.bool_)
    for axis, count in enumerate(per_file):
        first = position[axis] * meta.files[axis]
        starts = first + np.arange(count) * meta.chunks[axis]
        along = [1] * len(per_file)
        along[axis] = count
        inside = inside & (starts < meta.shape[axis]).reshape(along)
    return inside.reshape(-1)


def chunks_per_file(meta: ArrayMeta) -> tuple[int, ...]:
    return tuple(f // c for f, c in zip(meta.files, meta.chunks, strict=True))


def _rows(position: tuple[int, ...], meta: ArrayMeta) -> str:
    start = position[0] * meta.files[0] if position else 0
    stop = min(start + meta.files[0], meta.shape[0]) if position else 0
    return f"rows {start} to {stop - 1}"
