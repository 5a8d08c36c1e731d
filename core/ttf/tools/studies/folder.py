"""A study's folder: its name, whose it is, and whether the files it is about are what they were."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from ttf.errors import ConfigError, FolderInUse, storage_error

_OWNER: Final = ".owner"


def claim(folder: Path) -> FileLock:
    """Makes the folder where it is not there; FolderInUse names who has it."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        (folder / _OWNER).write_text(str(os.getpid()))
    except Timeout:
        raise FolderInUse(
            f"{folder} is in use by another live process{_holder(folder)}.",
            hint="Wait for it, stop it, or choose another --out.",
        ) from None
    except OSError as error:
        lock.release()
        raise storage_error(error, str(folder)) from error
    return lock


def release(folder: Path, lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        (folder / _OWNER).unlink(missing_ok=True)
    lock.release()


def _holder(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return f" (process {int((folder / _OWNER).read_text())})"
    return ""


def next_folder(runs: Path, prefix: str) -> Path:
    """Makes `prefix-NNN`, the next one that is free."""
    for number in itertools.count(1):
        path = runs / f"{prefix}-{number:03d}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise storage_error(error, str(path)) from error
        return path
    raise AssertionError


def sha256_of(path: Path) -> str:
    """Of a configuration; ConfigError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"{path} could not be read: {error.strerror}.",
            hint="Name a run.toml, or the folder of a run.",
        ) from error
