"""Writes everything of a run folder: to a temporary name, fsync, rename, fsync of the folder.

Every change of the disk is an `Operation` with a name ("checkpoint.write") that passes through
`perform`: there a recorder lists operations and a failpoint (`ttf.rundir.failpoints`) makes them
fail.

After a failed fsync a file is given up, never fsynced again: the kernel has marked its pages clean.
It is written again under another name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ttf.errors import storage_error
from ttf.rundir.confined import names_in, open_inside
from ttf.rundir.disk_operations import Operation, change, perform
from ttf.rundir.removing import remove, remove_if_possible
from ttf.rundir.temporary import OLD_PREFIX, TEMP_PREFIX, lock, temporary_path

_CHUNK_BYTES: Final = 4 << 20

# --- single operations ---------------------------------------------------------------------------


def fsync_file(fd: int, path: Path | None = None, area: str = "other") -> None:
    """Makes a file durable; macOS needs F_FULLFSYNC, a plain fsync is not enough there."""
    change(lambda: _fsync(fd), "fsync", area, path or Path(f"fd {fd}"))


def _fsync(fd: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def fsync_dir(path: Path, area: str = "other") -> None:
    """Makes the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        change(lambda: os.fsync(fd), "fsync_dir", area, path)
    finally:
        os.close(fd)


def rename(path: Path, target: Path, area: str) -> None:
    change(lambda: path.rename(target), "rename", area, path, target)


def unlink(path: Path, area: str) -> None:
    change(path.unlink, "unlink", area, path)


def make_dir(path: Path, area: str) -> None:
    change(path.mkdir, "mkdir", area, path)


class OpenFile:
    """A new file that grows at its end; every byte passes through `perform`. Raises OSError, also
    if there is something of that name.

    A file whose fsync failed refuses another fsync: write its content again to a new file.
    """

    def __init__(self, path: Path, area: str) -> None:
        self.path = path
        self.area = area
        self.size = 0
        self._digest = hashlib.sha256()
        self._given_up = False
        self._fd = -1
        change(self._open, "create", area, path)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o666)

    def write(self, data: bytes | memoryview) -> int:
        """Writes all bytes, in as many calls as needed. After a failure the same bytes can be
        written again: they go to the same position."""
        left = memoryview(data).cast("B")
        start, total = self.size, len(left)
        position = start
        while left:
            chunk = left[:_CHUNK_BYTES]
            count = perform(
                Operation(
                    verb="write", area=self.area, path=self.path, offset=position, data=chunk
                ),
                lambda some, at=position: os.pwrite(self._fd, some, at),  # type: ignore[misc]
            )
            if not 0 < count <= len(chunk):
                raise OSError(errno.EIO, f"a write returned {count}", str(self.path))
            left = left[count:]
            position += count
        self._digest.update(data)
        self.size = position
        return total

    def sync(self) -> None:
        if self._given_up:
            raise OSError(errno.EIO, "an earlier fsync of this file failed", str(self.path))
        try:
            fsync_file(self._fd, self.path, self.area)
        except BaseException:
            self._given_up = True
            raise

    def move_to(self, target: Path) -> None:
        """Renames the file, durably; writing may continue."""
        rename(self.path, target, self.area)
        self.path = target
        fsync_dir(target.parent, self.area)

    def lock(self) -> bool:
        """See `ttf.rundir.temporary.lock`."""
        return lock(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    @property
    def sha256(self) -> str:
        """Of the intended bytes, even if the disk changed them."""
        return self._digest.hexdigest()


# --- whole files and folders ---------------------------------------------------------------------


def write_new(path: Path, data: bytes | memoryview, area: str) -> str:
    """Writes a file inside `folder_written_whole`, which makes it durable; returns its SHA-256."""
    file = OpenFile(path, area)
    try:
        file.write(data)
    finally:
        file.close()
    return file.sha256


@contextlib.contextmanager
def file_written_whole(path: Path, area: str | None = None) -> Iterator[OpenFile]:
    """Yields a file to fill; on success it becomes `path`, durably. It stays open: the caller
    closes it, and may write more. Raises StorageError."""
    area = area or path.stem
    file: OpenFile | None = None
    try:
        file = _temporary(path, area)
        yield file
        file.sync()
        file.move_to(path)
    except BaseException as error:
        if file is not None:
            file.close()
            with contextlib.suppress(OSError):  # renamed already, or the file system is read-only
                if file.path != path:
                    unlink(file.path, area)
        if isinstance(error, OSError):
            raise storage_error(error, str(path)) from error
        raise


def _temporary(path: Path, area: str) -> OpenFile:
    while True:
        file = OpenFile(temporary_path(path), area)
        if file.lock():
            return file
        file.close()


def write_atomically(path: Path, data: bytes, area: str | None = None) -> None:
    """Replaces `path` as a whole or not at all. Raises StorageError."""
    with file_written_whole(path, area) as file:
        file.write(data)
    file.close()


def write_json(path: Path, value: Any, area: str | None = None) -> None:
    # Non-finite numbers become null: JSON has none, and readers fail on NaN.
    write_atomically(path, json_bytes(value), area)


def json_bytes(value: Any) -> bytes:
    return json.dumps(finite(value), indent=2, allow_nan=False).encode() + b"\n"


@contextlib.contextmanager
def folder_written_whole(path: Path, area: str | None = None) -> Iterator[Path]:
    """Yields a folder to fill; on success it becomes `path`, durably, and replaces an old one.

    Raises StorageError.
    """
    area = area or path.stem
    temp, old = temporary_path(path), temporary_path(path, OLD_PREFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_dir(temp, area)
        yield temp
        _sync_tree(temp, area)
        _put_in_place(temp, path, old, area)
        if old.exists():
            remove(old, old.parent, area)
    except BaseException as error:
        if temp.exists():
            remove_if_possible(temp, temp.parent, area)  # not on a read-only file system
        if isinstance(error, OSError):
            raise storage_error(error, str(path)) from error
        raise


def _sync_tree(folder: Path, area: str) -> None:
    for inner in sorted(folder.iterdir()):
        if inner.is_dir():
            _sync_tree(inner, area)
        else:
            fd = os.open(inner, os.O_RDONLY)
            try:
                fsync_file(fd, inner, area)
            finally:
                os.close(fd)
    fsync_dir(folder, area)


def _put_in_place(temp: Path, path: Path, old: Path, area: str) -> None:
    # Never a half-removed folder under the real name; always one if there was one before.
    replaces = path.exists()
    if replaces:
        rename(path, old, area)
    try:
        rename(temp, path, area)
    except OSError:
        if replaces:
            rename(old, path, area)
        raise
    fsync_dir(path.parent, area)


def remove_leftovers(folder: Path, inside: Path) -> None:
    """Deletes leftovers of interrupted writes; call with the folder locked.

    If a folder was moved aside and its replacement never came, it is put back.
    """
    try:
        names = names_in(folder, inside)
    except FileNotFoundError:
        return
    for name in names:
        if not name.startswith(TEMP_PREFIX):
            continue
        target = folder / name.removeprefix(OLD_PREFIX).rpartition("-")[0]
        if name.startswith(OLD_PREFIX) and not target.exists():
            rename(folder / name, target, "leftover")
        else:
            remove_if_possible(folder / name, inside, "leftover")


# --- reading -------------------------------------------------------------------------------------


def sha256_file(path: Path, inside: Path, *, from_disk: bool = False) -> str:
    """Of a file below `inside`. Raises OSError and EntryRefused.

    `from_disk` asks the kernel to drop its cached copy first, so that it reads what would be read
    after a crash. Only for fsynced files; a hint, if the system supports it.
    """
    with open_inside(path, inside) as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """The same value with every non-finite float replaced by None."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
