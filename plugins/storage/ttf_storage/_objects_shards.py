"""Where the shards of an open folder are: files of a local folder, or of the cache of this machine."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from ttf import (
    BadData,
    DataChanged,
    Fetching,
    NodeCache,
    RemoteFault,
    Shard,
    StorageError,
    open_inside,
)
from ttf_storage._mapped import FileIdentity, unreadable
from ttf_storage._objects_manifest import MOST_BYTES, ShardEntry
from ttf_storage._objects_remote import ObstoreRemote, split_address
from ttf_storage.objects_store import MANIFEST


class Place(Protocol):
    """What a store asks of the place of its shards."""

    pinned: str
    is_local: bool

    def manifest(self) -> bytes: ...

    def address(self, entry: ShardEntry) -> str:
        """For messages."""

    def path(self, entry: ShardEntry) -> Path: ...

    def missing(self, entries: Sequence[ShardEntry]) -> list[ShardEntry]:
        """Those that are not on this machine."""

    def bring(self, entries: Sequence[ShardEntry], how: Fetching) -> None:
        """Afterwards all are on this machine, whole."""

    def close(self) -> None: ...


class LocalFolder:
    """Sizes are compared when a shard is opened, hashes by `verify`."""

    is_local = True

    def __init__(self, uri: str) -> None:
        self.pinned = uri
        self._root = Path(uri)

    def manifest(self) -> bytes:
        path = self._root / MANIFEST
        try:
            with open_inside(path, self._root) as file:
                return file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            raise BadData(
                f"{self._root} has no {MANIFEST}, so it is no folder of shards.",
                hint="ttf data convert IN OUT.objects writes one.",
            ) from None
        except OSError as error:
            raise unreadable(path, error) from error

    def address(self, entry: ShardEntry) -> str:
        return str(self.path(entry))

    def path(self, entry: ShardEntry) -> Path:
        return self._root / entry.file

    def missing(self, entries: Sequence[ShardEntry]) -> list[ShardEntry]:
        return []

    def bring(self, entries: Sequence[ShardEntry], how: Fetching) -> None:
        """Raises BadData for a shard that is not there or has another size."""
        for entry in entries:
            path = self.path(entry)
            try:
                with open_inside(path, self._root) as file:
                    size = FileIdentity.of(file.fileno()).size
            except OSError as error:
                raise unreadable(path, error) from error
            if size != entry.bytes:
                raise BadData(
                    f"{path} is truncated or damaged: it has {size:,} bytes, but the manifest says "
                    f"{entry.bytes:,}.",
                    hint="Copy or write the folder again.",
                )

    def close(self) -> None:
        pass


class CachedFolder:
    """Shards are fetched to the cache of this machine. The manifest is asked for each time the address
    is opened, unless the address has its hash."""

    is_local = False

    def __init__(self, uri: str) -> None:
        self._address, self._pin = split_address(uri)
        self.pinned = ""
        self._cache = NodeCache()

    @cached_property
    def _remote(self) -> ObstoreRemote:
        return ObstoreRemote(self._address)

    def manifest(self) -> bytes:
        data = self._cache.stored(self._pin, MOST_BYTES + 1) if self._pin else None
        known = data is not None and hashlib.sha256(data).hexdigest() == self._pin
        if data is None or not known:
            data = self._fetched_manifest()
        found = hashlib.sha256(data).hexdigest()
        where = f"{self._address}/{MANIFEST}"
        if self._pin and found != self._pin:
            raise DataChanged(
                f"{where} has changed: its SHA-256 is {found}, but the address asks for {self._pin}.",
                hint="Restore the older folder, or use its new hash.",
            )
        self._cache.lease([Shard(key=MANIFEST, address=where, size=len(data), sha256=found)])
        if not known:
            self._cache.store(found, data)
        self.pinned = f"{self._address}#sha256={found}"
        return data

    def address(self, entry: ShardEntry) -> str:
        return f"{self._address}/{entry.file}"

    def path(self, entry: ShardEntry) -> Path:
        return self._cache.path(self._shard(entry))

    def missing(self, entries: Sequence[ShardEntry]) -> list[ShardEntry]:
        absent = {shard.sha256 for shard in self._cache.missing(map(self._shard, entries))}
        return [entry for entry in entries if entry.sha256 in absent]

    def bring(self, entries: Sequence[ShardEntry], how: Fetching) -> None:
        self._cache.bring([self._shard(e) for e in entries], lambda: self._remote, how)

    def close(self) -> None:
        self._cache.close()

    def _shard(self, entry: ShardEntry) -> Shard:
        return Shard(
            key=entry.file,
            address=self.address(entry),
            size=entry.bytes,
            sha256=entry.sha256,
        )

    def _fetched_manifest(self) -> bytes:
        """Its size is not known: what comes is taken if it is a manifest."""
        fault = ""
        for pause in itertools.chain((0.0,), Fetching().patience.pauses()):
            time.sleep(pause)
            try:
                return bytes(self._remote.read(MANIFEST, 0, MOST_BYTES + 1))
            except RemoteFault as error:
                fault = str(error)
        raise StorageError(
            f"{self._address}/{MANIFEST} could not be fetched: {fault}.",
            hint="Check the network and the address. Without a network, an address that ends in "
            "#sha256=... is read from the cache, if its shards are there.",
        )
