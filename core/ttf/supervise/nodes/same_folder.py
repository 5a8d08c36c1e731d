"""Do two nodes see the same folder? On a shared file system node 0 uses it, and the others a folder
of their own in nodes/ of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import read_inside, refuse_foreign_entries
from ttf.rundir.durable import write_atomically
from ttf.rundir.rank_folders import NODES
from ttf.rundir.removing import remove_if_possible
from ttf.rundir.run_folder import RunFolder

_MARK: Final = ".node0"
_MOST_BYTES: Final = 100


def mark_folder(folder: RunFolder, mark: str) -> None:
    """Raises StorageError."""
    write_atomically(folder.path / _MARK, mark.encode())


def unmark_folder(folder: RunFolder) -> None:
    remove_if_possible(folder.path / _MARK, folder.path)


def own_path(path: Path, node: int, mark: str) -> Path:
    """Where a node writes that was given `path`. Raises EntryRefused for a link there."""
    try:
        if read_inside(path / _MARK, path, _MOST_BYTES) != mark.encode():
            return path
    except (OSError, ArtifactDamaged):
        return path
    refuse_foreign_entries(path, (NODES,))
    refuse_foreign_entries(path / NODES, (str(node),))
    return path / NODES / str(node)
