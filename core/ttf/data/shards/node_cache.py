"""The shards on this machine, shared by all its processes: where they are, who uses them, what goes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.data.shards.fetched import Fetching, Remote, Shard, total_bytes
from ttf.data.shards.leases import Lease, leased
from ttf.errors import EntryRefused, StorageError, storage_error
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import names_in, open_inside, refuse_foreign_entries
from ttf.rundir.durable import write_atomically
from ttf.rundir.removing import remove_at_once, remove_leftovers
from ttf.rundir.verified_folders import PRIVATE, refuse_others
from ttf.rundir.waiting_lock import wait_for
from ttf.text.numbers import size

AREA: Final = "objects"
SHARD: Final = "shard"
PART: Final = "part"
LOCK: Final = "lock"
_LEASES: Final = "leases"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_KEPT_FREE: Final = 0.05  # Of the disk, where no limit is set.


@dataclass(frozen=True)
class Kept:
    """A folder of the cache."""

    sha256: str
    path: Path
    bytes: int
    used_ns: int  # The clock of the system orders only who is evicted first.


class NodeCache:
    """Holds leases on what it gave out until `close`."""

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.home = cache_dir() / AREA
        self._say = say
        self._leases: list[Lease] = []
        self._held: set[str] = set()

    def folder(self, sha256: str) -> Path:
        if not _HASH.fullmatch(sha256):
            raise EntryRefused(f"{sha256[:80]!r} is not a SHA-256.")
        return self.home / sha256

    def path(self, shard: Shard) -> Path:
        """Of the whole shard, whether or not it is there."""
        return self.folder(shard.sha256) / SHARD

    def has(self, shard: Shard) -> bool:
        """Whether it is here, whole; its content was compared when it came. Raises EntryRefused for a
        folder that somebody else could have written."""
        path = self.path(shard)
        try:
            if path.lstat().st_size != shard.size:
                return False
        except FileNotFoundError:
            return False
        refuse_others(path.parent)
        return True

    def missing(self, shards: Iterable[Shard]) -> list[Shard]:
        """Each content once."""
        distinct = {shard.sha256: shard for shard in shards}
        return [shard for shard in distinct.values() if not self.has(shard)]

    def lease(self, shards: Iterable[Shard]) -> None:
        """From here on nobody evicts them. Raises StorageError if the cache cannot be written."""
        wanted = {shard.sha256: shard.size for shard in shards}
        new = {sha256: wanted[sha256] for sha256 in wanted.keys() - self._held}
        if not new:
            return
        with self.locked():
            self._leases.append(Lease(self.home, self._folder_of_leases(), new))
            self._held |= new.keys()
            for sha256 in new:
                with contextlib.suppress(OSError):  # not there yet, or read-only
                    os.utime(self.folder(sha256))

    def bring(self, shards: Sequence[Shard], remote: Callable[[], Remote], how: Fetching) -> None:
        """Returns when all are here: leased, whole and verified. `remote` is called if one is
        missing. Raises StorageError, and BadData for an object with other content."""
        from ttf.data.shards.bring import bring

        self.lease(shards)
        missing = self.missing(shards)
        if missing:
            self._make_room(missing, how)
            bring(self, missing, remote(), how)

    def store(self, sha256: str, data: bytes) -> None:
        """Keeps a small object whose content has this hash."""
        folder = self.folder(sha256)
        with self.locked():
            self.make(folder)
            write_atomically(folder / SHARD, data, AREA)

    def stored(self, sha256: str, most: int) -> bytes | None:
        """What `store` kept; None: nothing. The caller compares the hash."""
        path = self.folder(sha256) / SHARD
        try:
            refuse_others(path.parent)
            with open_inside(path, self.home) as file:
                return file.read(most)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Releases the leases; what is mapped stays readable."""
        while self._leases:
            self._leases.pop().close()
        self._held.clear()

    # --- what goes --------------------------------------------------------------------------------

    def entries(self) -> list[Kept]:
        """The least recently used first."""
        found = [kept for name in self._names() if (kept := self._kept(name)) is not None]
        return sorted(found, key=lambda kept: (kept.used_ns, kept.sha256))

    def remove(self, sha256: str) -> str:
        """Removes a shard that no process uses; why it stays, or ''."""
        with self.locked():
            if sha256 in self.leased():
                return "a process is using it"
            remove_at_once(self.folder(sha256), self.home, AREA)
        return ""

    def leased(self) -> dict[str, int]:
        """By living processes, sizes by hash; call it with the lock held."""
        return leased(self.home, self.home / _LEASES)

    def _make_room(self, missing: Sequence[Shard], how: Fetching) -> None:
        """Evicts what no process uses, the least recently used first, until the missing fit."""
        with self.locked():
            remove_leftovers(self.home, self.home)  # of a process that was killed while it evicted
            kept = self.entries()
            there = {entry.sha256: entry.bytes for entry in kept}
            # All that living processes hold, also what others have not fetched yet.
            coming = {**self.leased(), **{shard.sha256: shard.size for shard in missing}}
            needed = sum(max(0, size - there.get(sha256, 0)) for sha256, size in coming.items())
            used = sum(there.values())
            limit = self._limit(used) if how.limit is None else how.limit
            for entry in kept:
                if used + needed <= limit:
                    return
                if entry.sha256 not in coming:
                    remove_at_once(entry.path, self.home, AREA)
                    used -= entry.bytes
            if used + needed > limit:
                raise _too_small(self.home, total_bytes(missing), used, limit, how)

    def _limit(self, used: int) -> int:
        disk = shutil.disk_usage(self.home)
        return used + disk.free - int(disk.total * _KEPT_FREE)

    def _names(self) -> list[str]:
        try:
            return [n for n in names_in(self.home, self.home.parent) if _HASH.fullmatch(n)]
        except FileNotFoundError:
            return []

    def _kept(self, sha256: str) -> Kept | None:
        path = self.home / sha256
        try:
            held = sum((path / n).lstat().st_size for n in names_in(path, self.home))
            return Kept(sha256, path, held, path.lstat().st_mtime_ns)
        except (FileNotFoundError, EntryRefused):
            return None

    # --- folders and the lock ---------------------------------------------------------------------

    def make(self, folder: Path) -> None:
        """A folder of the cache; whoever else may write there is found by `refuse_others`."""
        try:
            folder.mkdir(PRIVATE, exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(folder)) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Held for moments: while a lease is written, and while something is evicted."""
        import filelock

        try:
            self.home.mkdir(PRIVATE, parents=True, exist_ok=True)
            held = wait_for(filelock.FileLock(self.home / "housekeeping.lock"), self._say)
        except OSError as error:
            raise storage_error(error, str(self.home)) from error
        with held:
            yield

    def _folder_of_leases(self) -> Path:
        folder = self.home / _LEASES
        self.make(folder)
        refuse_foreign_entries(self.home, [_LEASES])
        return folder


def _too_small(home: Path, needed: int, used: int, limit: int, how: Fetching) -> StorageError:
    whose = "the disk has room for" if how.limit is None else "data.cache_limit allows"
    held = f", of which living runs use {size(used)}" if used else ""
    return StorageError(
        f"{size(needed)} of shards must be fetched to {home}, but {whose} {size(max(0, limit))} "
        f"of shards in all{held}.",
        hint="Free some space, set TTF_HOME to a folder on a larger disk, or raise "
        "data.cache_limit.",
    )
