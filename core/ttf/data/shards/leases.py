"""Which shards living processes use: a file for each process, locked while it lives.

The system releases the lock of a dead process, also where process numbers mean nothing (another
container, a number that was given again). Called with the cache's lock held, so that nobody reads a
lease that is half written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import names_in, open_inside
from ttf.rundir.durable import OpenFile, json_bytes
from ttf.rundir.removing import remove_if_possible
from ttf.text.limited_json import parsed_json

AREA: Final = "lease"
_MOST_BYTES: Final = 64 << 20  # 800,000 shards


class Lease:
    """Held until `close`, or until this process ends."""

    def __init__(self, home: Path, folder: Path, shards: Mapping[str, int]) -> None:
        """`folder`: of all leases, below `home`. `shards`: sizes by hash."""
        self._home = home
        self._file = OpenFile(folder / f"{secrets.token_hex(8)}.json", AREA)
        try:
            # False only where another process took it for a dead one's, which needs the cache's lock.
            self._file.lock()
            self._file.write(
                json_bytes({"pid": os.getpid(), "shards": dict(sorted(shards.items()))})
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Does nothing the second time."""
        remove_if_possible(self._file.path, self._home, AREA)
        self._file.close()


def leased(home: Path, folder: Path) -> dict[str, int]:
    """What living processes hold, sizes by hash; removes the leases of dead ones."""
    held: dict[str, int] = {}
    for path in _leases(home, folder):
        # Its process may release it at this moment.
        with contextlib.suppress(FileNotFoundError), open_inside(path, home) as file:
            if _is_dead(file.fileno()):
                remove_if_possible(path, home, AREA)
            else:
                held |= _shards_in(file.read(_MOST_BYTES), path)
    return held


def _leases(home: Path, folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from (folder / name for name in names_in(folder, home) if name.endswith(".json"))


def _is_dead(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its process lives, or the file system has no locks: then nothing is evicted
        return False
    return True


def _shards_in(data: bytes, path: Path) -> dict[str, int]:
    try:
        return {str(sha256): int(size) for sha256, size in parsed_json(data)["shards"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ArtifactDamaged(
            f"{path} is damaged ({error}), so ttf does not know which shards a living process uses.",
            hint="Remove it when no run uses the cache.",
        ) from error
