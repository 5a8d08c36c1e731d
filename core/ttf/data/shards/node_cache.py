"""The shards of this machine as one process uses them: it brings what is missing, and holds leases."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ttf.data.shards.bring import bring
from ttf.data.shards.cache_folder import AREA, SHARD, CacheFolder
from ttf.data.shards.fetched import Fetching, Remote, Shard
from ttf.data.shards.leases import Lease
from ttf.rundir.confined import open_inside
from ttf.rundir.durable import write_atomically
from ttf.rundir.verified_folders import refuse_others


class NodeCache:
    """What was brought is not evicted until `close`, or until this process ends."""

    def __init__(self) -> None:
        self._folder = CacheFolder()
        self._leases: list[Lease] = []
        self._held: set[str] = set()

    def path(self, shard: Shard) -> Path:
        """Of the whole shard, whether or not it is there."""
        return self._folder.path(shard)

    def missing(self, shards: Iterable[Shard]) -> list[Shard]:
        """Those that are not on this machine, each content once."""
        distinct = {shard.sha256: shard for shard in shards}
        return [shard for shard in distinct.values() if not self._folder.has(shard)]

    def lease(self, shards: Iterable[Shard]) -> None:
        """From here on nobody evicts them. Raises StorageError if the cache cannot be written."""
        wanted = {shard.sha256: shard.size for shard in shards}
        new = {sha256: wanted[sha256] for sha256 in wanted.keys() - self._held}
        if not new:
            return
        with self._folder.locked():
            self._leases.append(self._folder.new_lease(new))
            self._held |= new.keys()
            for sha256 in new:
                with contextlib.suppress(OSError):  # not there yet, or read-only
                    os.utime(self._folder.folder(sha256))

    def bring(self, shards: Sequence[Shard], remote: Callable[[], Remote], how: Fetching) -> None:
        """Returns when all are here: leased, whole and verified. `remote` is called if one is
        missing. Raises StorageError, and BadData for an object with other content."""
        self.lease(shards)
        missing = self.missing(shards)
        if missing:
            self._folder.make_room(missing, how)
            bring(self._folder, missing, remote(), how)

    def store(self, sha256: str, data: bytes) -> None:
        """Keeps a small object whose content has this hash."""
        folder = self._folder.folder(sha256)
        with self._folder.locked():
            self._folder.make(folder)
            write_atomically(folder / SHARD, data, AREA)

    def stored(self, sha256: str, most: int) -> bytes | None:
        """What `store` kept; None: nothing. The caller compares the hash."""
        path = self._folder.folder(sha256) / SHARD
        try:
            refuse_others(path.parent)
            with open_inside(path, self._folder.home) as file:
                return file.read(most)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Releases the leases; what is mapped stays readable."""
        while self._leases:
            self._leases.pop().close()
        self._held.clear()
