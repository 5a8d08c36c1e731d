"""Folders that appear and go as a whole, and the one place that removes files and folders of runs,
studies, stores and caches.

Nothing outside of `inside`, the folder that is ours, is removed: no link on the way is followed, of
a link the link goes and not what it points to, and a name from a document must be below `inside`.
What is removed is the caller's decision; it must know that the entry is its own, by its name or
from its own list.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf.errors import EntryRefused, storage_error
from ttf.rundir.confined import folder_of, names_in, open_folder
from ttf.rundir.durable import (
    TEMP_PREFIX,
    change,
    fsync_dir,
    fsync_file,
    make_dir,
    rename,
    temporary_path,
)

_OLD_PREFIX: Final = f"{TEMP_PREFIX}old-"
_GONE_PREFIX: Final = f"{TEMP_PREFIX}gone-"
_DEEPEST: Final = 64  # Each level holds a descriptor.


def remove(path: Path, inside: Path, area: str = "other") -> None:
    """Removes a file, or a folder with all it holds. Raises OSError and EntryRefused."""
    with folder_of(path, inside) as (parent, name):
        _remove(parent, name, path, area, _DEEPEST)


def remove_if_there(path: Path, inside: Path, area: str = "other") -> None:
    """The same, if it is there at all."""
    with contextlib.suppress(FileNotFoundError):
        remove(path, inside, area)


def remove_if_possible(path: Path, inside: Path, area: str = "other") -> None:
    """For leftovers that may stay if the disk or the rights say so."""
    with contextlib.suppress(OSError, EntryRefused):
        remove(path, inside, area)


def remove_at_once(path: Path, inside: Path, area: str) -> None:
    """Renames a folder before its files go: whoever looks for it finds all of it or nothing.
    Raises OSError and EntryRefused."""
    gone = temporary_path(path, _GONE_PREFIX)
    with folder_of(path, inside) as (parent, name):
        change(
            lambda: os.rename(name, gone.name, src_dir_fd=parent, dst_dir_fd=parent),
            "rename",
            area,
            path,
            gone,
        )
        _remove(parent, gone.name, gone, area, _DEEPEST)


def _remove(parent: int, name: str, path: Path, area: str, deepest: int) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        change(lambda: os.unlink(name, dir_fd=parent), "unlink", area, path)
        return
    if not deepest:
        raise EntryRefused(
            f"{path} has more levels than any folder of ttf, so ttf does not remove it."
        )
    fd = open_folder(name, path, parent)
    try:
        for inner in sorted(os.listdir(fd)):  # noqa: PTH208 - of a descriptor
            _remove(fd, inner, path / inner, area, deepest - 1)
    finally:
        os.close(fd)
    change(lambda: os.rmdir(name, dir_fd=parent), "rmdir", area, path)


# --- written whole --------------------------------------------------------------------------------


@contextlib.contextmanager
def folder_written_whole(path: Path, area: str | None = None) -> Iterator[Path]:
    """Yields a folder to fill; on success it becomes `path`, durably, and replaces an old one.

    Raises StorageError.
    """
    area = area or path.stem
    temp, old = temporary_path(path), temporary_path(path, _OLD_PREFIX)
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


def folder_into_place(folder: Path, target: Path, area: str) -> None:
    """Renames a finished folder of the same disk to `target`, durably; it replaces an old one.

    Raises StorageError.
    """
    old = temporary_path(target, _OLD_PREFIX)
    try:
        _sync_tree(folder, area)
        _put_in_place(folder, target, old, area)
        if old.exists():
            remove(old, old.parent, area)
    except OSError as error:
        raise storage_error(error, str(target)) from error


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
        target = folder / name.removeprefix(_OLD_PREFIX).rpartition("-")[0]
        if name.startswith(_OLD_PREFIX) and not target.exists():
            rename(folder / name, target, "leftover")
        else:
            remove_if_possible(folder / name, inside, "leftover")
