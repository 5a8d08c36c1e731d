"""Files and folders that the user named as an output: nobody tidies around them but their writers.

A process that is killed leaves its temporary file. The next writer of the same target removes it:
the system releases the lock of a dead process, also where process numbers are of no use (another
container, a number that was given again).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.errors import ConfigError, EntryRefused
from ttf.rundir.confined import open_named
from ttf.rundir.durable import TEMP_PREFIX, lock, temporary_path, write_atomically
from ttf.rundir.removing import remove_if_possible

_SUFFIX: Final = r"(?:[0-9a-f]{12}|\d+(?:\.\d+)?)"  # earlier versions: the process number
_HEAD_BYTES: Final = 1024
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class Temporary:
    """A new, empty file or folder beside its target. It is locked until `close`: if this process is
    killed, the next writer of the target removes it."""

    fd: int
    path: Path

    def close(self) -> None:
        """Does nothing the second time."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def remove(self) -> None:
        """Also when it was renamed: then there is nothing to remove."""
        self.close()
        remove_if_possible(self.path, self.path.parent)


def temporary_file(target: Path) -> Temporary:
    """To be written through `fd`, then renamed to `target`. Raises OSError; ConfigError for a
    target that is a device or a pipe."""
    refuse_special(target)
    _sweep(target)
    return Temporary(*_locked_file(target))


def temporary_folder(target: Path) -> Temporary:
    """To be filled, then renamed to `target`. Raises OSError; ConfigError for a target that is a
    device or a pipe."""
    refuse_special(target)
    _sweep(target)
    return Temporary(*_locked_folder(target))


def refuse_to_replace(
    name: str, path: Path, marks: tuple[bytes, ...] = (), *, overwrite: bool = False
) -> None:
    """Raises ConfigError if a file exists there that ttf did not write. `name`: the option or
    argument; `marks`: one of them is near the beginning of every file of ours."""
    refuse_special(path, name)
    if overwrite or not os.path.lexists(path) or _begins_with(path, marks):
        return
    raise ConfigError(
        f"{name} {path} already exists, and it is not an earlier output of this command.",
        hint="Choose another file, or replace it: "
        + ("--overwrite" if name.startswith("-") else "overwrite=True"),
    )


def refuse_special(path: Path, name: str = "") -> None:
    """Raises ConfigError for a device, a pipe or a socket, also behind a link: an output replaces
    its target by a rename, so that /dev/full would become a plain file."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # whoever writes says why it cannot be written
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ConfigError(
            f"{name} {path} is a device, a pipe or a socket, which ttf does not replace.".lstrip(),
            hint="Choose a file name that does not exist yet.",
        )


def _begins_with(path: Path, marks: tuple[bytes, ...]) -> bool:
    with contextlib.suppress(OSError, EntryRefused), open_named(path) as file:
        head = file.read(_HEAD_BYTES)
        return any(mark in head for mark in marks)
    return False


def write_output(path: Path, data: bytes, area: str | None = None) -> None:
    """Replaces `path` as a whole or not at all. Raises StorageError; ConfigError for a device or a
    pipe."""
    refuse_special(path)
    _sweep(path)
    write_atomically(path, data, area)


def _sweep(target: Path) -> None:
    for path in _dead_leftovers(target):
        remove_if_possible(path, path.parent, "leftover")


def _locked_file(target: Path) -> tuple[int, Path]:
    """A new, empty, locked file beside `target`: its descriptor (read and write) and its path.
    Raises OSError."""
    return _locked(target, lambda path: os.open(path, os.O_RDWR | _NEW, 0o666))


def _locked_folder(target: Path) -> tuple[int, Path]:
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


def _dead_leftovers(target: Path) -> Iterator[Path]:
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
