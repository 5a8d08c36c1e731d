"""The one place that removes files and folders of runs, studies, stores and caches.

Nothing outside of `inside`, the folder that is ours, is removed: no link on the way is followed, of
a link the link goes and not what it points to, and a name from a document must be below `inside`.
What is removed is the caller's decision; it must know that the entry is its own, by its name or
from its own list.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from ttf.errors import EntryRefused
from ttf.rundir.confined import folder_of, open_folder
from ttf.rundir.disk_operations import change
from ttf.rundir.temporary import GONE_PREFIX, temporary_path

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
    gone = temporary_path(path, GONE_PREFIX)
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
