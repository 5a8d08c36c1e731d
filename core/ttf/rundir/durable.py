"""Writes everything of a run folder: to a temporary name, fsync, rename, fsync of the folder.

Every change of the disk is an `Operation` with a name ("checkpoint.write") that passes through
`_perform`: there a recorder lists operations and a failpoint (`ttf.rundir.failpoints`) makes them
fail.

After a failed fsync a file is given up, never fsynced again: the kernel has marked its pages clean.
It is written again under another name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf.errors import storage_error
from ttf.rundir import failpoints

TEMP_PREFIX = ".tmp-"
OLD_PREFIX = f"{TEMP_PREFIX}old-"
_GONE_PREFIX: Final = f"{TEMP_PREFIX}gone-"
_CHUNK_BYTES: Final = 4 << 20
_counter = itertools.count()

# --- the seam ------------------------------------------------------------------------------------

Verb = Literal["create", "write", "fsync", "rename", "fsync_dir", "unlink", "mkdir", "rmdir"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One change of the disk, or one wait for it."""

    verb: Verb
    area: str  # What is written: 'checkpoint', 'metrics', 'candidates', ...
    path: Path
    target: Path | None = None  # Of a rename.
    offset: int = 0
    data: bytes | memoryview = b""  # Of a write.

    @property
    def name(self) -> str:
        return f"{self.area}.{self.verb}"


# Does the operation; gets the bytes of a write, and returns how many were written.
Act = Callable[[memoryview], int]
Interceptor = Callable[[Operation, Act], int]

_interceptor: Interceptor | None = failpoints.from_environment()


def _perform(operation: Operation, act: Act) -> int:
    if _interceptor is None:
        return act(memoryview(operation.data))
    return _interceptor(operation, act)


@contextlib.contextmanager
def intercepted(interceptor: Interceptor) -> Iterator[None]:
    """During the block every operation of this process, of all threads, goes to `interceptor`."""
    global _interceptor
    before, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = before


def _change(
    act: Callable[[], object], verb: Verb, area: str, path: Path, target: Path | None = None
) -> None:
    # Any change but a write.
    def do(_: memoryview) -> int:
        act()
        return 0

    _perform(Operation(verb=verb, area=area, path=path, target=target), do)


# --- single operations ---------------------------------------------------------------------------


def fsync_file(fd: int, path: Path | None = None, area: str = "other") -> None:
    """Makes a file durable; macOS needs F_FULLFSYNC, a plain fsync is not enough there."""
    _change(lambda: _fsync(fd), "fsync", area, path or Path(f"fd {fd}"))


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
        _change(lambda: os.fsync(fd), "fsync_dir", area, path)
    finally:
        os.close(fd)


def rename(path: Path, target: Path, area: str) -> None:
    _change(lambda: path.rename(target), "rename", area, path, target)


def unlink(path: Path, area: str) -> None:
    _change(path.unlink, "unlink", area, path)


def make_dir(path: Path, area: str) -> None:
    _change(path.mkdir, "mkdir", area, path)


def remove_tree(path: Path, area: str) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in sorted(path.iterdir()):
            remove_tree(inner, area)
        _change(path.rmdir, "rmdir", area, path)
    else:
        unlink(path, area)


def remove_folder(path: Path, area: str) -> None:
    # Readers look for this folder: rename it first, so that it disappears as a whole.
    gone = _temp_path(path, _GONE_PREFIX)
    rename(path, gone, area)
    remove_tree(gone, area)


class OpenFile:
    """A new file that grows at its end; every byte passes through `_perform`. Raises OSError.

    A file whose fsync failed refuses another fsync: write its content again to a new file.
    """

    def __init__(self, path: Path, area: str) -> None:
        self.path = path
        self.area = area
        self.size = 0
        self._digest = hashlib.sha256()
        self._given_up = False
        self._fd = -1
        _change(self._open, "create", area, path)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(self.path, flags, 0o666)

    def write(self, data: bytes | memoryview) -> int:
        """Writes all bytes, in as many calls as needed. After a failure the same bytes can be
        written again: they go to the same position."""
        left = memoryview(data).cast("B")
        start, total = self.size, len(left)
        position = start
        while left:
            chunk = left[:_CHUNK_BYTES]
            count = _perform(
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

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    @property
    def sha256(self) -> str:
        """Of the intended bytes, even if the disk changed them."""
        return self._digest.hexdigest()


# --- whole files and folders ---------------------------------------------------------------------


def _temp_path(path: Path, prefix: str = TEMP_PREFIX) -> Path:
    # A name that was never used: a retried write does not meet its own leftovers.
    return path.with_name(f"{prefix}{path.name}-{os.getpid()}.{next(_counter)}")


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
        file = OpenFile(_temp_path(path), area)
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
    temp, old = _temp_path(path), _temp_path(path, OLD_PREFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_dir(temp, area)
        yield temp
        _sync_tree(temp, area)
        _put_in_place(temp, path, old, area)
        if old.exists():
            remove_tree(old, area)
    except BaseException as error:
        with contextlib.suppress(OSError):  # on a read-only file system even this fails
            if temp.exists():
                remove_tree(temp, area)
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


def remove_leftovers(folder: Path) -> None:
    """Deletes leftovers of interrupted writes; call with the folder locked.

    If a folder was moved aside and its replacement never came, it is put back.
    """
    for old in sorted(folder.glob(f"{OLD_PREFIX}*")):
        target = folder / old.name.removeprefix(OLD_PREFIX).rpartition("-")[0]
        if not target.exists():
            rename(old, target, "leftover")
    for left in sorted(folder.glob(f"{TEMP_PREFIX}*")):
        with contextlib.suppress(OSError):  # it may stay
            remove_tree(left, "leftover")


# --- reading -------------------------------------------------------------------------------------


def sha256_file(path: Path, *, from_disk: bool = False) -> str:
    """`from_disk` asks the kernel to drop its cached copy first, so that it reads what would be
    read after a crash. Only for fsynced files; a hint, if the system supports it."""
    with path.open("rb") as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def finite(value: Any) -> Any:
    """The same value with every non-finite float replaced by None."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
