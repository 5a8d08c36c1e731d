"""A run's newest checkpoint, given to every rank that lacks it: the ranks of another number of
processes, a host that was added, a disk that was lost.

The folders of a run hold no rank, so any rank can go on from any other's. Files are sent in pieces,
in the order of their names, and a folder appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from ttf.errors import PeerLost
from ttf.rundir.confined import is_plain_name, names_in, open_inside, read_json
from ttf.rundir.durable import write_atomically, write_new
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import (
    CHECKPOINT,
    CHECKPOINT_AREA,
    TABLE_AREA,
    newest_first,
    path_of,
    problem_with,
)
from ttf.world.world import World

_PIECE_BYTES: Final = 8 << 20
_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 1 << 36  # A file is held in memory.


def share_newest(world: World, folder: RunFolder, say: Callable[[str], None]) -> int:
    """Returns the step of the newest intact checkpoint of all ranks, which every rank now has; -1:
    there is none. Every rank calls it at the same time."""
    own = _newest_intact(folder)
    steps = [int(told["step"]) for told in world.tell("newest checkpoint", {"step": own})]
    newest = max(steps)
    if newest < 0 or min(steps) == newest:
        return newest
    source = steps.index(newest)
    mine = _listed(folder, newest) if world.rank == source else {}
    listed = world.tell("files of the checkpoint", mine)[source]
    if own < newest:
        say(f"ttf copies the checkpoint of step {newest:,} from rank {source}.")
    _send(world, folder, listed, source, wanted=own < newest)
    return newest


def _newest_intact(folder: RunFolder) -> int:
    for path in newest_first(folder.checkpoints):
        if not problem_with(path):
            step: int = read_json(path / CHECKPOINT, folder.path)["step"]
            return step
    return -1


def _listed(folder: RunFolder, step: int) -> Mapping[str, Any]:
    checkpoint = path_of(folder.checkpoints, step)
    table = read_json(checkpoint / CHECKPOINT, folder.path)["table"]
    folders = [folder.candidates / table["key"]] if table else []
    return {
        "documents": {
            path.name: _size(path, folder)
            for path in (folder.manifest, folder.metrics)
            if path.is_file()
        },
        # The table first: a checkpoint without its table is damaged.
        "folders": [
            {
                "name": [path.parent.name, path.name],
                "files": {name: _size(path / name, folder) for name in _names(path, folder)},
            }
            for path in (*folders, checkpoint)
        ],
    }


def _names(path: Path, folder: RunFolder) -> list[str]:
    return sorted(names_in(path, folder.path))


def _size(path: Path, folder: RunFolder) -> int:
    with open_inside(path, folder.path) as file:
        return file.seek(0, 2)


def _send(
    world: World, folder: RunFolder, listed: Mapping[str, Any], source: int, *, wanted: bool
) -> None:
    takes = wanted and world.rank != source
    for name, size in listed["documents"].items():
        path = {folder.manifest.name: folder.manifest, folder.metrics.name: folder.metrics}[name]
        data = _file(world, folder, path, _checked(size), source)
        if takes:
            write_atomically(path, data)
    for each in listed["folders"]:
        area, name = each["name"]
        if area not in (folder.candidates.name, folder.checkpoints.name):
            raise PeerLost(f"Rank {source} sends a folder {area!r}.")
        if not all(map(is_plain_name, (name, *each["files"]))) or len(each["files"]) > _MOST_FILES:
            raise PeerLost(f"Rank {source} sends files with names that are none.")
        path = folder.path / area / name
        if not takes or path.exists():
            for file, size in each["files"].items():
                _file(world, folder, path / file, _checked(size), source)
            continue
        kind = CHECKPOINT_AREA if area == folder.checkpoints.name else TABLE_AREA
        with folder_written_whole(path, kind) as temp:
            for file, size in each["files"].items():
                data = _file(world, folder, path / file, _checked(size), source)
                write_new(temp / file, data, kind)


def _checked(size: Any) -> int:
    if not isinstance(size, int) or not 0 <= size <= _MOST_BYTES:
        raise PeerLost(f"A rank sends a file of {size!r} bytes.")
    return size


def _file(world: World, folder: RunFolder, path: Path, size: int, source: int) -> bytes:
    """The bytes of a file of the rank `source`, on every rank."""
    if world.rank == source:
        with open_inside(path, folder.path) as opened:
            whole = torch.from_numpy(np.frombuffer(opened.read(size), np.uint8).copy())
    else:
        whole = torch.zeros(size, dtype=torch.uint8)
    for start in range(0, size, _PIECE_BYTES):
        world.broadcast(whole[start : start + _PIECE_BYTES], source)
    return whole.numpy().tobytes()
