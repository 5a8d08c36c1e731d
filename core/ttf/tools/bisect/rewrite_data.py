"""Copies of the user's data with one change: fewer pairs, other sequences, another container.

Streams with bounded memory into the study's folder and only reads the user's files. Runs in a child
process: a file that kills its reader is a finding and does not end the study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ttf.data.convert import convert
from ttf.data.writing import array_bytes, block_rows, writing
from ttf.errors import ArtifactDamaged
from ttf.host import plugins
from ttf.host.plugins import open_store, storage_for

if TYPE_CHECKING:
    from ttf.contracts import StorageFactory, StoreWriter, VectorSource
    from ttf.process.serve import Tell

_SPLITS: Final = ("train", "val")
_WITH_STEPS: Final = ("X", "seq", "len", "mask")


@dataclass(frozen=True, kw_only=True)
class DataChange:
    # None: unchanged
    rows: int | None = None  # keep the first training pairs
    length: int | None = None  # of every sequence: cut, or repeated if it has one step
    storage: str | None = None


def rewrite_task(request: Mapping[str, Any], tell: Tell) -> dict[str, str]:
    change, folder = DataChange(**request["change"]), Path(request["folder"])
    return rewrite(request["data"], change, folder)


def rewrite(data: Mapping[str, Any], change: DataChange, folder: Path) -> dict[str, str]:
    """Writes the changed files and returns the edits of `[data]`. Existing files are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    storage = change.storage or storage_for(data["pairs"], data["storage"])
    ending = cast("StorageFactory", plugins.load("storage", storage)).suffixes[0]
    target = folder / f"pairs{ending}"
    if not target.exists():
        _rewrite_pairs(data, change, str(target), storage)
    edits = {"data.pairs": str(target)}
    if change.storage is None:
        return edits
    for name in ("bank", "context"):
        if data.get(name):
            other = folder / f"{name}{ending}"
            if not other.exists():
                convert(
                    data[name],
                    str(other),
                    storage=data["storage"],
                    to_storage=change.storage,
                    missing=_missing(data),
                )
            edits[f"data.{name}"] = str(other)
    return edits | {"data.storage": change.storage}


def _missing(data: Mapping[str, Any]) -> str:
    return str(data.get("missing", "refuse"))  # studies of older versions do not have it


def _rewrite_pairs(data: Mapping[str, Any], change: DataChange, target: str, storage: str) -> None:
    store = open_store(data["pairs"], data["storage"], _missing(data))
    roles = {mapped: role for role, mapped in data["names"].items()}
    try:
        names = [n for n in store.names() if store.describe(n).get("shape") != []]
        sources = {roles.get(n, n): store.source(n) for n in names}
        planned = [_Planned(role, sources, change) for role in sources]
        needed = sum(array_bytes(p.shape, p.source.dtype) for p in planned)
        with writing(target, storage, needed_bytes=needed) as writer:
            for plan in planned:
                plan.write(writer)
        store.check_unchanged()
    finally:
        store.close()


class _Planned:
    def __init__(self, role: str, sources: Mapping[str, VectorSource], change: DataChange) -> None:
        self.source = sources[role]
        self.kind, _, self.split = role.partition("_")
        self.lengths = sources.get(f"len_{self.split}")
        self.mask = sources.get(f"mask_{self.split}") if self.lengths is None else None
        shape = self.source.shape
        rows = shape[0]
        if change.rows is not None and self.split == "train":
            rows = min(rows, change.rows)
        self.was = _length(sources, self.split)
        _refuse_odd(change, self.was)
        self.length = change.length if self.was and self.kind in _WITH_STEPS else None
        if self.length is not None and not 1 <= self.length <= max(2, self.was):
            raise ArtifactDamaged(
                f"The study asks for sequences of {self.length:,} steps, but they have {self.was:,}: "
                "ttf bisect only makes them shorter, or two of one.",
                hint="Its study.json is damaged, or ttf did not write it. Start a new study.",
            )
        inner = shape[1:]
        if self.length is not None and self.kind != "len":
            inner = (self.length, *inner[1:])
        self.shape = (rows, *inner)

    def write(self, writer: StoreWriter) -> None:
        array = writer.array(self.source.name, self.shape, self.source.dtype)
        step = block_rows(self.source.shape)
        for start in range(0, self.shape[0], step):
            stop = min(start + step, self.shape[0])
            array.append(self._changed(self.source.read(start, stop), start, stop))

    def _changed(self, block: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        if self.length is None:
            return block
        if self.kind == "len":
            new = (
                np.minimum(block, self.length) if self.was > 1 else np.full_like(block, self.length)
            )
            return new.astype(block.dtype)
        if block.shape[1] < self.length:
            return np.repeat(block, self.length, axis=1)[:, : self.length]
        if self.kind == "seq":
            block = self._valid_first(block, start, stop)
        return np.ascontiguousarray(block[:, : self.length])

    def _valid_first(self, block: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        # Padding goes to the end, so that no sequence loses all its steps.
        valid = block >= 0
        if self.lengths is not None:
            count = np.asarray(self.lengths.read(start, stop))
            valid &= np.arange(block.shape[1]) < count[:, None]
        if self.mask is not None:
            valid &= np.asarray(self.mask.read(start, stop)) != 0
        order = np.argsort(~valid, axis=1, kind="stable")
        moved = np.take_along_axis(np.where(valid, block, -1), order, axis=1)
        return moved.astype(block.dtype)


def _refuse_odd(change: DataChange, was: int) -> None:
    # A study.json that ttf did not write can ask for any amount of memory and disk.
    longest = 2 if was == 1 else was
    rows, length = change.rows, change.length
    if (rows is not None and rows < 1) or (
        length is not None and was and not 1 <= length <= longest
    ):
        raise ArtifactDamaged(
            f"The study changes its data to {rows or 'all'} pairs and sequences of {length} steps, "
            f"but they have {was}: ttf only cuts data, or makes two steps of one.",
            hint="Its study.json was changed. Start a new study.",
        )


def _length(sources: Mapping[str, VectorSource], split: str) -> int:
    """Steps of a split's sequences; 0 if its queries are single vectors."""
    if split in _SPLITS and f"seq_{split}" in sources:
        return sources[f"seq_{split}"].shape[1]
    x = sources.get(f"X_{split}") if split in _SPLITS else None
    return x.shape[1] if x is not None and len(x.shape) == 3 else 0
