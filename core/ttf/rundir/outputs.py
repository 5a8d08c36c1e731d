"""Files and folders that the user named as an output: nobody tidies around them but their writers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ttf.rundir import temporary
from ttf.rundir.durable import write_atomically
from ttf.rundir.removing import remove_if_possible


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
    """To be written through `fd`, then renamed to `target`. Raises OSError."""
    _sweep(target)
    return Temporary(*temporary.locked_file(target))


def temporary_folder(target: Path) -> Temporary:
    """To be filled, then renamed to `target`. Raises OSError."""
    _sweep(target)
    return Temporary(*temporary.locked_folder(target))


def write_output(path: Path, data: bytes, area: str | None = None) -> None:
    """Replaces `path` as a whole or not at all. Raises StorageError."""
    _sweep(path)
    write_atomically(path, data, area)


def _sweep(target: Path) -> None:
    for path in temporary.dead_leftovers(target):
        remove_if_possible(path, path.parent, "leftover")
