"""Checkpoints as files: which is the newest intact one, what is wrong with the others, what to keep.

Light: the supervisor asks here, without torch. Making and loading them: `ttf.training.checkpoint`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import storage_error
from ttf.rundir.durable import read_json, remove_folder
from ttf.rundir.table_files import problem_with_table
from ttf.rundir.verified_folder import file_problem

FORMAT: Final = 2
MANIFEST: Final = "checkpoint.json"
AREA: Final = "checkpoint"
_PREFIX: Final = "step-"
_UNREADABLE: Final = (OSError, LookupError, TypeError, AttributeError, ValueError)


def path_of(folder: Path, step: int) -> Path:
    return folder / f"{_PREFIX}{step:09d}"


def step_of(path: Path) -> int:
    """-1 for a name that no checkpoint has."""
    number = path.name.removeprefix(_PREFIX)
    return int(number) if path.name.startswith(_PREFIX) and number.isdecimal() else -1


def candidates_beside(folder: Path) -> Path:
    """Where the tables of these checkpoints are."""
    return folder.parent / "candidates"


def newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.glob(f"{_PREFIX}*") if step_of(path) >= 0]
    return sorted(found, key=step_of, reverse=True)


def newest_step(folder: Path) -> int:
    """The step of the newest intact checkpoint; -1: there is none. Reads all of it."""
    return next((step_of(path) for path in newest_first(folder) if not problem_with(path)), -1)


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Of the manifest's own content, whose numbers matter as much as the tensors do."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def problem_with(path: Path, *, read_tables: bool = True, from_disk: bool = False) -> str:
    """Why a checkpoint cannot be used; empty if it is intact, with the table it continues with.

    `read_tables` False only looks whether the table's files are there. `from_disk`: see
    `sha256_file`.
    """
    try:
        manifest = read_json(path / MANIFEST)
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, this version reads {FORMAT}"
        if manifest.pop("sha256") != digest_of(manifest):
            return f"{MANIFEST} does not match its SHA-256"
        if manifest["step"] != step_of(path):
            return f"{MANIFEST} is that of step {manifest['step']}"
        files, table = dict(manifest["files"]), dict(manifest["table"])
    except _UNREADABLE as error:
        return f"{MANIFEST} cannot be read ({type(error).__name__})"
    for name, digest in files.items():
        problem = file_problem(path / name, digest, from_disk=from_disk)
        if problem:
            return f"{name} {problem}"
    if not table:
        return ""
    return problem_with_table(
        candidates_beside(path.parent) / table["key"], table["sha256"], read_arrays=read_tables
    )


def prune(folder: Path, keep: int, *, verified: Path | None = None) -> None:
    """Removes what is older than the `keep` newest intact ones; damaged ones do not count as kept.

    Call it when the newest is durable (its folder fsynced) and was read back: `verified` is not
    read again. Raises StorageError.
    """
    intact = 0
    try:
        for path in newest_first(folder):
            if intact >= keep:
                remove_folder(path, AREA)
            elif path == verified or not problem_with(path, read_tables=False):
                intact += 1
    except OSError as error:
        raise storage_error(error, f"{folder} while removing old checkpoints") from error


def remove_newer(path: Path) -> None:
    """Removes what is newer than a checkpoint that was just made: the run would have continued
    from there if it were intact. Raises StorageError."""
    try:
        for other in newest_first(path.parent):
            if step_of(other) > step_of(path):
                remove_folder(other, AREA)
    except OSError as error:
        raise storage_error(error, str(path.parent)) from error


def tables_in_use(folder: Path) -> set[str]:
    """The candidate tables that some checkpoint refers to."""
    used = set()
    for path in newest_first(folder):
        with contextlib.suppress(*_UNREADABLE):
            used.add(str(read_json(path / MANIFEST)["table"]["key"]))
    return used
