"""The folder of shards on this machine: where they are, who uses them, and what goes."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.data.shards.fetched import Fetching, Shard, total_bytes
from ttf.data.shards.leases import Lease, leased
from ttf.errors import EntryRefused, StorageError, storage_error
from ttf.host import notices
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import names_in, refuse_foreign_entries
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


class CacheFolder:
    """Shared by all processes of this machine; every change of who may use what is made with `locked`."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.home = cache_dir() / AREA
        self._say = say or notices.say

    def folder(self, sha256: str) -> Path:
        if not _HASH.fullmatch(sha256):
            raise EntryRefused(f"{sha256[:80]!r} is not a SHA-256.")
        return self.home / sha256

    def path(self, shard: Shard) -> Path:
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

    def new_lease(self, shards: Mapping[str, int]) -> Lease:
        """Call it with the lock held. `shards`: sizes by hash."""
        folder = self.home / _LEASES
        self.make(folder)
        refuse_foreign_entries(self.home, [_LEASES])
        return Lease(self.home, folder, shards)

    def leased(self) -> dict[str, int]:
        """By living processes, sizes by hash; call it with the lock held."""
        return leased(self.home, self.home / _LEASES)

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

    def make_room(self, missing: Sequence[Shard], how: Fetching) -> None:
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
            may_go = [entry for entry in kept if entry.sha256 not in coming]
            least = used - sum(entry.bytes for entry in may_go)
            if least + needed > limit:  # what cannot fit must not cost what is there
                raise _too_small(self.home, total_bytes(missing), least, limit, how)
            for entry in may_go:
                if used + needed <= limit:
                    return
                remove_at_once(entry.path, self.home, AREA)
                used -= entry.bytes

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


def _too_small(home: Path, needed: int, used: int, limit: int, how: Fetching) -> StorageError:
    whose = "the disk has room for" if how.limit is None else "data.cache_limit allows"
    held = f", of which living runs use {size(used)}" if used else ""
    return StorageError(
        f"{size(needed)} of shards must be fetched to {home}, but {whose} {size(max(0, limit))} "
        f"of shards in all{held}.",
        hint="Free some space, set TTF_HOME to a folder on a larger disk, or raise "
        "data.cache_limit.",
    )
