"""Durable writes: beside, fsynced, renamed, the folder fsynced. The one place that does it.

After a failed fsync a file is given up, never fsynced again: the kernel has marked its pages clean.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttf.errors import storage_error

TEMP_PREFIX = ".tmp-"
OLD_PREFIX = f"{TEMP_PREFIX}old-"


def fsync_file(fd: int) -> None:
    """Makes a file durable; plain fsync is not on macOS (F_FULLFSYNC there)."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def fsync_dir(path: Path) -> None:
    """Makes the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces `path` as a whole or not at all. Raises StorageError."""
    temp = path.with_name(f"{TEMP_PREFIX}{path.name}-{os.getpid()}")
    try:
        with temp.open("wb") as file:
            file.write(data)
            file.flush()
            fsync_file(file.fileno())
        temp.rename(path)
        fsync_dir(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # on a read-only file system even this fails
            temp.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise storage_error(error, str(path)) from error
        raise


def write_json(path: Path, value: Any) -> None:
    """Non-finite numbers are written as null: JSON has none, and readers choke on NaN."""
    text = json.dumps(finite(value), indent=2, allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def finite(value: Any) -> Any:
    """The same value with every non-finite float replaced by None."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


@contextlib.contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Yields a folder to fill; on success it becomes `path`, durably, replacing what was there."""
    temp = path.with_name(f"{TEMP_PREFIX}{path.name}-{os.getpid()}")
    try:
        shutil.rmtree(temp, ignore_errors=True)
        temp.mkdir(parents=True)
        yield temp
        for file in sorted(temp.rglob("*")):
            if file.is_file():
                with file.open("rb") as handle:
                    fsync_file(handle.fileno())
            else:
                fsync_dir(file)
        fsync_dir(temp)
        old = path.with_name(f"{OLD_PREFIX}{path.name}-{os.getpid()}")
        if path.exists():
            path.rename(old)  # never a half-removed folder under the real name
        temp.rename(path)
        fsync_dir(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(temp, ignore_errors=True)
        raise storage_error(error, str(path)) from error
    except BaseException:
        shutil.rmtree(temp, ignore_errors=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Deletes what an interrupted write left beside its target; call with the folder locked.

    What was moved aside for a successor that never came is put back.
    """
    for old in folder.glob(f"{OLD_PREFIX}*"):
        target = folder / old.name.removeprefix(OLD_PREFIX).rpartition("-")[0]
        if not target.exists():
            old.rename(target)
    for left in folder.glob(f"{TEMP_PREFIX}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
