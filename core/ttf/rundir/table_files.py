"""Candidate tables as files: which they are and whether they are whole, without loading them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged, storage_error
from ttf.rundir.durable import remove_folder, sha256_file
from ttf.rundir.verified_folder import MANIFEST, verified_manifest

AREA: Final = "candidates"
ARRAYS: Final = ("rows", "ids", "scores", "positive_scores")


def table_digest(folder: Path) -> str:
    """What a checkpoint commits to: the manifest holds the hash of every array. Raises OSError."""
    return sha256_file(folder / MANIFEST)


def problem_with_table(folder: Path, digest: str = "", *, read_arrays: bool = True) -> str:
    """Why a table cannot be used; empty if it is whole and the one that `digest` names.

    Without `read_arrays` they are only looked for: a table may be larger than all of a checkpoint.
    """
    try:
        manifest = (folder / MANIFEST).read_bytes()
        if digest and hashlib.sha256(manifest).hexdigest() != digest:
            return f"its candidate table {folder.name} is not the one it was saved with"
        if read_arrays:
            verified_table(folder)
            return ""
        missing = [name for name in ARRAYS if not (folder / f"{name}.npy").is_file()]
        return f"its candidate table {folder.name} lacks {missing[0]}.npy" if missing else ""
    except FileNotFoundError:
        return f"its candidate table {folder.name} is missing"
    except OSError as error:
        return f"its candidate table {folder.name} cannot be read ({error.strerror})"
    except ArtifactDamaged as error:
        return f"its candidate table is damaged: {str(error).rstrip('.')}"


def prune_tables(candidates: Path, in_use: Collection[str]) -> None:
    """Removes tables that neither a checkpoint nor the run names. Raises StorageError."""
    try:
        for folder in sorted(candidates.iterdir()):
            if folder.is_dir() and folder.name not in in_use and not folder.name.startswith("."):
                remove_folder(folder, AREA)
    except OSError as error:
        raise storage_error(error, f"{candidates} while removing old tables") from error


def verified_table(folder: Path) -> dict[str, Any]:
    """The table's manifest, every file having matched its hash. Raises ArtifactDamaged."""
    return verified_manifest(
        folder,
        "The candidate table",
        names=[f"{name}.npy" for name in ARRAYS],
        hint="Delete the folder: it is mined again.",
    )
