"""Rows that are not on this machine: fetched before a run's first step, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttf.contracts import Store, VectorSource
from ttf.data.shards import Fetching
from ttf.data.shards.fetched import FetchesRows, FetchesShards, PinnedContent, RowsOverNetwork
from ttf.data.sources import StackedRows, WithColumn
from ttf.data.vectors import RowView, UnitRows
from ttf.errors import ConfigError


def fetch_as(store: Store, how: Fetching | None) -> None:
    """Tells a store how its rows are to be fetched; None: as it likes."""
    if how is not None and isinstance(store, FetchesShards):
        store.fetch_as(how)


def fetch_all(sources: Iterable[VectorSource]) -> Iterator[int]:
    """Afterwards every row can be read from a mapped file. Yields the bytes that were missing of each
    array. Raises StorageError and BadData."""
    for source in _stored(sources):
        if isinstance(source, FetchesRows):
            missing = source.missing_bytes
            source.fetch()
            yield missing


def bytes_to_fetch(sources: Iterable[VectorSource]) -> int:
    """What `fetch_all` would transfer now."""
    return sum(s.missing_bytes for s in _stored(sources) if isinstance(s, FetchesRows))


def near_rows(source: VectorSource) -> int:
    """Number of rows, from the first on, that a look at an array may read."""
    rows = source.shape[0]
    return min(rows, source.near_rows) if isinstance(source, FetchesRows) else rows


def refuse_over_network(sources: Iterable[VectorSource]) -> None:
    """Raises ConfigError for a source that asks a server for rows: a step would wait for it."""
    for source in _stored(sources):
        advice = source.over_network if isinstance(source, RowsOverNetwork) else ""
        if advice:
            raise ConfigError(
                f"{source.uri}: a run reads its rows at random, and here each read would ask a "
                "server.",
                hint=advice,
            )


def address_of(store: Store) -> str:
    """Where another process of this machine opens exactly this content."""
    return store.pinned if isinstance(store, PinnedContent) and store.pinned else store.uri


def _stored(sources: Iterable[VectorSource]) -> Iterator[VectorSource]:
    """The arrays of stores behind views of rows, each once."""
    seen: set[int] = set()
    todo = list(sources)
    while todo:
        source = todo.pop(0)
        if isinstance(source, RowView | UnitRows | WithColumn):
            todo.append(source.source)
        elif isinstance(source, StackedRows):
            todo += source.parts
        elif id(source) not in seen:
            seen.add(id(source))
            yield source
