"""Fetches one shard: piece by piece behind what an earlier process left, verified, then renamed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from ttf.data.shards.cache_folder import AREA, LOCK, PART, SHARD, CacheFolder
from ttf.data.shards.fetched import Fetching, Remote, RemoteFault, Shard
from ttf.errors import BadData, StorageError, storage_error
from ttf.rundir.confined import refuse_foreign, write_inside
from ttf.rundir.durable import fsync_dir, fsync_file, rename, write_at

# At 60 s a request, enough for 140 KB/s; on a fast network a request takes longer to answer than to send.
PIECE_BYTES: Final = 8 << 20
_WHOLE_ATTEMPTS: Final = 2  # The second one begins with nothing: what a crash left may be damaged.


class Left(Exception):
    """The fetch was ended by another thread."""


class ShardFetch:
    """`count` gets the bytes that became available, negative if they must be fetched again."""

    def __init__(
        self,
        cache: CacheFolder,
        shard: Shard,
        remote: Remote,
        how: Fetching,
        *,
        say: Callable[[str], None],
        count: Callable[[int], None],
        leave: threading.Event,
    ) -> None:
        self._cache = cache
        self._shard = shard
        self._remote = remote
        self._how = how
        self._say = say
        self._count = count
        self._leave = leave
        self._counted = 0
        self._folder = cache.folder(shard.sha256)

    def run(self) -> bool:
        """False: another process is fetching it now. Raises StorageError, BadData, Left."""
        import filelock

        self._cache.make(self._folder)
        refuse_foreign(self._folder, [LOCK])
        lock = filelock.FileLock(self._folder / LOCK, thread_local=False)
        try:
            held = lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error
        with held:
            if self._cache.has(self._shard):
                self._available(self._shard.size)
                return True
            try:
                self._fetch()
            except OSError as error:
                raise storage_error(error, str(self._folder)) from error
            return True

    def _fetch(self) -> None:
        found = ""
        for _ in range(_WHOLE_ATTEMPTS):
            part = self._folder / PART
            with write_inside(part, self._cache.home) as file:
                found = self._fill(file, part)
                if found == self._shard.sha256:
                    fsync_file(file.fileno(), part, AREA)
                    rename(part, self._folder / SHARD, AREA)
                    fsync_dir(self._folder, AREA)
                    return
                file.truncate(0)
            self._available(0)
        raise BadData(
            f"{self._shard.address} is not the object that the manifest names: its SHA-256 is "
            f"{found[:16]}..., but it must be {self._shard.sha256[:16]}... .",
            hint="The object was changed, or its upload was incomplete. Upload the shard again, or "
            "write the data anew: shards are never changed in place.",
        )

    def _fill(self, file: BinaryIO, part: Path) -> str:
        """Reads what is there and appends the rest; returns the hash of all of it."""
        digest, at = hashlib.sha256(), 0
        if os.fstat(file.fileno()).st_size > self._shard.size:
            file.truncate(0)
        while block := file.read(PIECE_BYTES):
            digest.update(block)
            at += len(block)
            self._available(at)
        while at < self._shard.size:
            piece = self._piece(at, min(at + PIECE_BYTES, self._shard.size))
            at = write_at(file.fileno(), part, AREA, at, piece)
            digest.update(piece)
            self._available(at)
        return digest.hexdigest()

    def _piece(self, start: int, stop: int) -> bytes | memoryview:
        pauses, told = self._how.patience.pauses(), False
        while True:
            if self._leave.is_set():
                raise Left
            fault = ""
            try:
                data = self._remote.read(self._shard.key, start, stop)
                if len(data) == stop - start:
                    return data
                fault = f"{len(data):,} of {stop - start:,} bytes came"
            except RemoteFault as error:
                fault = str(error)
            pause = next(pauses, None)
            if pause is None:
                raise self._gave_up(fault)
            if not told:
                self._say(f"{self._shard.address}: {fault}. ttf tries again.")
                told = True
            self._leave.wait(pause)

    def _gave_up(self, fault: str) -> StorageError:
        return StorageError(
            f"{self._shard.address} could not be fetched in {self._how.patience.attempts} attempts. "
            f"The last one: {fault}.",
            hint="Check the network and the server, then start again: what was fetched is kept.",
        )

    def _available(self, size: int) -> None:
        self._count(size - self._counted)
        self._counted = size
