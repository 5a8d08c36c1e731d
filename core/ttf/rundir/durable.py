"""Writes files durably: to a temporary name beside the target, fsync, rename, fsync of the folder.

Every change of the disk is an `Operation` with a name ("checkpoint.write") that passes through
`perform`: there a recorder lists operations and a failpoint (`ttf.rundir.failpoints`) makes them
fail. Whole folders, and what goes: `ttf.rundir.removing`.

After a failed fsync a file is given up, never fsynced again: the kernel has marked its pages clean.
It is written again under another name. A process that is killed leaves its temporary file; it has a
random name that nobody can foresee, and is locked while its writer lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf.errors import storage_error
from ttf.rundir import failpoints

_CHUNK_BYTES: Final = 4 << 20
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TEMP_PREFIX: Final = ".tmp-"

# --- the seam -----------------------------------------------------------------------------------

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


# Does the operation; gets the bytes of a write, and returns how many were written; of a new file,
# its descriptor.
Act = Callable[[memoryview], int]
Interceptor = Callable[[Operation, Act], int]

_interceptor: Interceptor | None = failpoints.from_environment()


def perform(operation: Operation, act: Act) -> int:
    if _interceptor is None:
        return act(memoryview(operation.data))
    return _interceptor(operation, act)


def change(
    act: Callable[[], object], verb: Verb, area: str, path: Path, target: Path | None = None
) -> None:
    """Any change but a write."""

    def do(_: memoryview) -> int:
        act()
        return 0

    perform(Operation(verb=verb, area=area, path=path, target=target), do)


@contextlib.contextmanager
def intercepted(interceptor: Interceptor) -> Iterator[None]:
    """During the block every operation of this process, of all threads, goes to `interceptor`."""
    global _interceptor
    before, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = before


# --- temporary names -------------------------------------------------------------------------------


def temporary_path(target: Path, prefix: str = TEMP_PREFIX) -> Path:
    """A new name beside `target`: a retried write does not meet its own leftovers."""
    return target.with_name(f"{prefix}{target.name}-{secrets.token_hex(6)}")


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


# --- single operations ---------------------------------------------------------------------------


def fsync_file(fd: int, path: Path | None = None, area: str = "other") -> None:
    """Makes a file durable; macOS needs F_FULLFSYNC, a plain fsync is not enough there."""
    path = path or Path(f"fd {fd}")
    if sys.platform == "darwin":
        change(lambda: fcntl.fcntl(fd, fcntl.F_FULLFSYNC), "fsync", area, path)
    else:
        change(lambda: os.fsync(fd), "fsync", area, path)


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


def link_to(path: Path, target: Path, area: str) -> None:
    """Gives a file another name on its disk. Raises OSError."""
    change(lambda: os.link(path, target, follow_symlinks=False), "create", area, target)


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
        self._fd = perform(
            Operation(verb="create", area=area, path=path), lambda _: os.open(path, _NEW, 0o666)
        )

    def write(self, data: bytes | memoryview) -> int:
        """Writes all bytes, in as many calls as needed. After a failure the same bytes can be
        written again: they go to the same position."""
        self.size = write_at(self._fd, self.path, self.area, self.size, data)
        self._digest.update(data)
        return memoryview(data).nbytes

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
        """See `lock`."""
        return lock(self._fd)

    def hide(self) -> None:
        """Only the user may read it from here on."""
        os.fchmod(self._fd, 0o600)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    @property
    def sha256(self) -> str:
        """Of the intended bytes, even if the disk changed them."""
        return self._digest.hexdigest()


class PlacedFile:
    """A file of a fixed size, written at positions; every byte passes through `perform`. Raises
    OSError.

    After a failed `sync` nobody knows what is on the disk: write everything again after opening it
    anew.
    """

    def __init__(self, path: Path, area: str, *, size: int | None = None) -> None:
        """`size`: makes a new file, which reads as zeros and takes no space yet."""
        self.path = path
        self.area = area
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        if size is None:
            self.fd = os.open(path, flags)
            return
        self.fd = perform(
            Operation(verb="create", area=area, path=path), lambda _: os.open(path, _NEW, 0o666)
        )
        self.write_at(size - 1, b"\0")  # not truncate: what is written is what passes here

    def write_at(self, position: int, data: bytes | memoryview) -> None:
        write_at(self.fd, self.path, self.area, position, data)

    def will_need(self, position: int, size: int) -> None:
        """Starts reading what is about to be written in small parts: a part of a page can only be
        written once the page is in memory."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, position, size, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        fsync_file(self.fd, self.path, self.area)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)


def write_at(fd: int, path: Path, area: str, position: int, data: bytes | memoryview) -> int:
    """Writes all bytes, in as many calls as needed; returns the position after them. Raises
    OSError."""
    left = memoryview(data).cast("B")
    while left:
        chunk = left[:_CHUNK_BYTES]
        count = perform(
            Operation(verb="write", area=area, path=path, offset=position, data=chunk),
            lambda some, at=position: os.pwrite(fd, some, at),  # type: ignore[misc]
        )
        if not 0 < count <= len(chunk):
            raise OSError(errno.EIO, f"a write returned {count}", str(path))
        left = left[count:]
        position += count
    return position


# --- whole files ---------------------------------------------------------------------------------


def write_new(path: Path, data: bytes | memoryview, area: str) -> str:
    """Writes a file inside `folder_written_whole`, which makes it durable; returns its SHA-256."""
    file = OpenFile(path, area)
    try:
        file.write(data)
    finally:
        file.close()
    return file.sha256


def write_manifest(
    path: Path, facts: Mapping[str, Any], hashes: Mapping[str, str], area: str
) -> None:
    """Writes the last file of a new folder; `hashes` by the names of the others. See
    `ttf.rundir.verified_folders`."""
    write_new(path, json_bytes({**facts, "sha256": dict(hashes)}), area)


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


def write_atomically(
    path: Path, data: bytes, area: str | None = None, *, private: bool = False
) -> None:
    """Replaces `path` as a whole or not at all; `private`: only the user may read it. Raises
    StorageError."""
    with file_written_whole(path, area) as file:
        if private:
            file.hide()
        file.write(data)
    file.close()


def write_json(path: Path, value: Any, area: str | None = None) -> None:
    # Non-finite numbers become null: JSON has none, and readers fail on NaN.
    write_atomically(path, json_bytes(value), area)


def json_bytes(value: Any) -> bytes:
    return json.dumps(finite(value), indent=2, allow_nan=False).encode() + b"\n"


def finite(value: Any) -> Any:
    """The same value with every non-finite float replaced by None."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
