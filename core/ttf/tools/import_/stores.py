"""Whatever a storage plugin reads: Parquet, Arrow, .npy, safetensors, Zarr, databases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Store, VectorSource
from ttf.data.kept_for import content_key, times_of
from ttf.data.text_arrays import HoldsText, column_type, columns_left_out, stored_kind
from ttf.errors import TtfError
from ttf.host.plugins import open_store
from ttf.tools.import_.columns import Column, Input


@runtime_checkable
class TextBlocks(Protocol):
    """Optional for stores: strings a few at a time."""

    def text_blocks(self, name: str) -> Iterator[NDArray[np.str_]]: ...


def open_stored(uri: str, storage: str) -> Input:
    store = open_store(uri, storage)
    try:
        columns, problems, prints = {}, {}, []
        texts = [n for n in columns_left_out(store) if stored_kind(store, n) == "U"]
        for name in [*store.names(), *texts]:
            try:
                column, known = _column(store, name)
            except TtfError as error:
                problems[name] = str(error)
                continue
            columns[name] = column
            prints.append((name, known))
        identity = hashlib.sha256(repr(sorted(prints)).encode()).hexdigest()
    except BaseException:
        store.close()
        raise
    return Input(
        uri=uri,
        what=f"a container of the storage {store.container}",
        columns=columns,
        identity=identity,
        check_unchanged=store.check_unchanged,
        close=store.close,
        notes=tuple([*problems.values()][:3]),
        unreadable=problems | _other_columns(store, texts),
    )


def _other_columns(store: Store, texts: list[str]) -> dict[str, str]:
    left_out = [name for name in columns_left_out(store) if name not in texts]
    return {n: f"it is a column of the type {column_type(store, n)}." for n in left_out}


def _column(store: Store, name: str) -> tuple[Column, str]:
    if stored_kind(store, name) in ("U", "S") and isinstance(store, HoldsText):
        rows, uri = int(store.describe(name)["shape"][0]), store.uri
        text = _Text(store, name)
        return Column(
            name, (rows,), "text", text.read, text.longest
        ), f"text {rows} {times_of(uri)}"
    source: VectorSource = store.source(name)
    return Column(name, source.shape, source.dtype, _reader(source)), content_key(source)


def _reader(source: VectorSource) -> Callable[[int, int], NDArray[Any]]:
    return lambda start, stop: source.read(start, stop)


class _Text:
    """Strings by rows, of a store that gives them in blocks or as a whole."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name
        self._blocks: Iterator[NDArray[np.str_]] = iter(())
        self._first, self._held = 0, np.empty(0, "U1")

    def read(self, start: int, stop: int) -> NDArray[Any]:
        if start < self._first or not self._first + len(self._held):
            self._blocks, self._first, self._held = self._all(), 0, np.empty(0, "U1")
        parts: list[NDArray[np.str_]] = []
        while start < stop:
            end = self._first + len(self._held)
            if start >= end:
                self._first, self._held = end, next(self._blocks)
                continue
            parts.append(self._held[start - self._first : stop - self._first])
            start += len(parts[-1])
        return np.concatenate(parts) if parts else np.empty(0, "U1")

    def longest(self) -> int:
        longest = 0
        for block in self._all():
            if len(block):
                longest = max(longest, int(np.char.encode(block, "utf-8").dtype.itemsize))
        return longest

    def _all(self) -> Iterator[NDArray[np.str_]]:
        if isinstance(self._store, TextBlocks):
            return self._store.text_blocks(self._name)
        return iter([self._store.text(self._name)])
