"""The one place that makes temporary files and folders: beside their target, under a random name
that nobody can foresee, locked while their writer lives, swept when it is dead.

A process that is killed leaves its temporary file. The next writer of the same target removes it:
the system releases the lock of a dead process, also where process numbers are of no use (another
container, a number that was given again).
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

TEMP_PREFIX: Final = ".tmp-"
OLD_PREFIX: Final = f"{TEMP_PREFIX}old-"
GONE_PREFIX: Final = f"{TEMP_PREFIX}gone-"
_SUFFIX: Final = r"(?:[0-9a-f]{12}|\d+(?:\.\d+)?)"  # earlier versions: the process number
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def temporary_path(target: Path, prefix: str = TEMP_PREFIX) -> Path:
    """A new name beside `target`: a retried write does not meet its own leftovers."""
    return target.with_name(f"{prefix}{target.name}-{secrets.token_hex(6)}")


def locked_file(target: Path) -> tuple[int, Path]:
    """A new, empty, locked file beside `target`: its descriptor (read and write) and its path.
    Raises OSError."""
    return _locked(target, lambda path: os.open(path, os.O_RDWR | _NEW, 0o666))


def locked_folder(target: Path) -> tuple[int, Path]:
    """A new, empty folder beside `target`, and a descriptor that locks it until it is closed.
    Raises OSError."""

    def make(path: Path) -> int:
        path.mkdir()
        return os.open(path, _FOLDER)

    return _locked(target, make)


def _locked(target: Path, make: Callable[[Path], int]) -> tuple[int, Path]:
    while True:
        path = temporary_path(target)
        fd = make(path)
        if lock(fd):
            return fd, path
        os.close(fd)  # somebody sweeps, and met the file before its lock: he removes it


def lock(fd: int) -> bool:
    """Marks a new temporary file as alive until the descriptor is closed. False: another process
    took it for a dead one's a moment before, and removes it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there nothing is swept either
        return True
    return os.fstat(fd).st_nlink > 0


def dead_leftovers(target: Path) -> Iterator[Path]:
    """Temporary files and folders of `target` that a process of this user left when it died. Each
    is locked until the next is asked for, so that the caller may remove it."""
    leftover = re.compile(re.escape(f"{TEMP_PREFIX}{target.name}-") + _SUFFIX)
    try:
        names = sorted(path.name for path in target.parent.iterdir())
    except OSError:
        return
    for name in filter(leftover.fullmatch, names):
        path = target.parent / name
        if (fd := _lock_of_the_dead(path)) is not None:
            try:
                yield path
            finally:
                os.close(fd)


def _lock_of_the_dead(path: Path) -> int | None:
    try:
        if not _may_be_ours(os.lstat(path)):
            return None
        fd = os.open(path, _LOOK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _may_be_ours(os.fstat(fd)):
            return fd
    except OSError:  # its writer lives, or the file system has no locks
        pass
    os.close(fd)
    return None


def _may_be_ours(found: os.stat_result) -> bool:
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return plain and found.st_uid == os.geteuid()
