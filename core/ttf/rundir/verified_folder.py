"""Folders that are used only after every file in them matched its SHA-256.

Indexes, candidate tables and bfloat16 copies of banks are such folders. One is written beside its
place (`folder_written_whole`), gets a manifest of hashes as its last file, and is renamed when all of
it is on the disk. Native readers die of damaged files: nothing is opened before it was verified.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged
from ttf.rundir.durable import TEMP_PREFIX, json_bytes, read_json, sha256_file, write_new

MANIFEST: Final = "manifest.json"
_CHANGED: Final = "does not match its hash"


def folder_key(made_from: Mapping[str, Any]) -> str:
    """The name of a folder: a hash of everything its content follows from."""
    text = json.dumps(made_from, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def lock_folder(folder: Path) -> AbstractContextManager[Any]:
    """Waits for whoever makes or reads this folder of the cache, and holds its lock; what makers
    that were killed left beside it is removed. Raises OSError where the cache cannot be used."""
    import filelock

    folder.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(folder.with_suffix(".lock")).acquire()
    # Only of this very folder: others may be in the making, under locks of their own.
    for left in folder.parent.glob(f"{TEMP_PREFIX}{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    return held


def write_manifest(
    folder: Path, facts: Mapping[str, Any], hashes: Mapping[str, str], area: str
) -> None:
    """The last file of a folder that is being written; `hashes` by the names of the others."""
    write_new(folder / MANIFEST, json_bytes({**facts, "sha256": dict(hashes)}), area)


def verified_manifest(
    folder: Path, what: str, *, names: Iterable[str] | None = None, hint: str = ""
) -> dict[str, Any]:
    """The manifest, every file having matched its hash. Raises ArtifactDamaged.

    `what` begins the message, e.g. "The index". `names`: the files there must be; None: those that
    the manifest names.
    """
    try:
        manifest = dict(read_json(folder / MANIFEST))
        hashes = dict(manifest["sha256"])
        expected = {name: str(hashes[name]) for name in (hashes if names is None else names)}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"{what} {folder} is not whole ({type(error).__name__}: {error}).", hint=hint
        ) from error
    for name, digest in expected.items():
        problem = file_problem(folder / name, digest)
        if problem == _CHANGED:
            raise ArtifactDamaged(f"{folder / name} {problem}.", hint=hint)
        if problem:
            raise ArtifactDamaged(f"{what} {folder} is not whole ({name} {problem}).", hint=hint)
    return manifest


def file_problem(path: Path, digest: str, *, from_disk: bool = False) -> str:
    """Why a file is not the one with this SHA-256, e.g. "is missing"; empty if it is.

    `from_disk`: see `sha256_file`.
    """
    try:
        same = sha256_file(path, from_disk=from_disk) == digest
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if same else _CHANGED
