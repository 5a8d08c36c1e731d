"""The folders of a node's further trainers: each has a whole run folder of its own, in ranks/ of the
run's folder. The first one uses the run's folder itself."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ttf.errors import ArtifactDamaged, storage_error
from ttf.rundir.confined import MOST_CONFIG_BYTES, read_inside, refuse_foreign_entries
from ttf.rundir.durable import write_atomically, write_json
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal

RANKS: Final = "ranks"
NODES: Final = "nodes"  # Of the other hosts, where all of them see the same folder.
# What a run needs to go on, beside a checkpoint; in the order in which they are written: a folder
# with a run.toml has the rest.
DOCUMENTS: Final = ("manifest.json", "run.toml")
MOST_BYTES: Final = 4 * MOST_CONFIG_BYTES


def rank_folder(folder: RunFolder, local_rank: int) -> RunFolder:
    """Makes it where it is missing. Raises StorageError and EntryRefused."""
    if local_rank == 0:
        return folder
    # Not led out of the run's folder by links; what is in it, `claim` looks at.
    refuse_foreign_entries(folder.path, (RANKS,))
    refuse_foreign_entries(folder.path / RANKS, (str(local_rank),))
    inner = inner_folder(folder.path / RANKS / str(local_rank))
    if not inner.supervision.exists():
        # It has a supervisor: a summary without a checkpoint is then of a trainer that died early.
        write_json(inner.supervision, Journal().document())
    return inner


def inner_folder(path: Path) -> RunFolder:
    """A run's folder in the folder of a run. Raises StorageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, str(path)) from error
    folder = RunFolder(path)
    folder.make_folders()
    return folder


def documents_of(folder: RunFolder) -> dict[str, str]:
    """What a rank without a folder goes on with; empty if no run began here. Raises OSError and
    ArtifactDamaged."""
    if not folder.is_run():
        return {}
    found = {}
    for name in DOCUMENTS:
        with contextlib.suppress(FileNotFoundError):
            data = read_inside(folder.path / name, folder.path, MOST_BYTES)
            found[name] = data.decode()
    return found if DOCUMENTS[-1] in found else {}


def add_documents(folder: RunFolder, found: Mapping[str, object]) -> None:
    """Writes those that are missing; a folder that has begun a run keeps its own. Raises
    StorageError, and ArtifactDamaged for what is no such document."""
    for name in DOCUMENTS:
        text = found.get(name)
        if text is None or (folder.path / name).exists():
            continue
        if not isinstance(text, str) or len(text) > MOST_BYTES:
            raise ArtifactDamaged(f"Another node sent a {name} that is none.")
        write_atomically(folder.path / name, text.encode())
