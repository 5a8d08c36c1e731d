"""Folders that are used only after every file in them matched its SHA-256.

Checkpoints, candidate tables, and in the cache indexes and bfloat16 copies of banks. Such a folder
is written under a temporary name (`folder_written_whole`), gets a manifest of hashes as its last
file, and is renamed when everything is on the disk. Native readers crash on damaged files: nothing
is opened before it was verified. The supervisor uses this module, so it imports no torch or numpy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import ArtifactDamaged, EntryRefused, storage_error
from ttf.rundir.confined import (
    MOST_BYTES,
    is_plain_name,
    names_in,
    read_inside,
    read_json,
    refuse_foreign,
    sha256_file,
)
from ttf.rundir.durable import TEMP_PREFIX
from ttf.rundir.removing import remove_at_once, remove_if_possible
from ttf.rundir.waiting_lock import wait_for

if TYPE_CHECKING:
    import filelock

MANIFEST: Final = "manifest.json"
PRIVATE: Final = 0o700  # of a folder in the cache: see `refuse_others`
_KEY: Final = re.compile(r"[0-9a-f]{24}")
_CHANGED: Final = "does not match its hash"


def folder_key(made_from: Mapping[str, Any]) -> str:
    """The name of a folder: a hash of everything its content depends on."""
    text = json.dumps(made_from, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def lock_folder(folder: Path, say: Callable[[str], None]) -> AbstractContextManager[Any]:
    """Waits until no other process makes or reads this folder of the cache, and holds its lock;
    removes what killed makers left. Raises OSError and EntryRefused if the cache cannot be used;
    TimeoutError is one of the former: another process holds the lock for too long."""
    held = wait_for(_lock_of(folder), say)
    # Only of this very folder: others may be in the making, under locks of their own.
    for name in names_in(folder.parent, folder.parent):
        if name.startswith(f"{TEMP_PREFIX}{folder.name}-"):
            remove_if_possible(folder.parent / name, folder.parent)
    return held


def lock_if_free(folder: Path) -> AbstractContextManager[Any] | None:
    """The lock of a folder of the cache; None if another process holds it. Raises OSError and
    EntryRefused."""
    import filelock

    try:
        return _lock_of(folder).acquire(timeout=0)
    except filelock.Timeout:
        return None


def _lock_of(folder: Path) -> filelock.BaseFileLock:
    import filelock

    folder.parent.mkdir(parents=True, exist_ok=True)
    names_in(folder.parent, folder.parents[1])  # refuses a link
    refuse_foreign(folder.parent, [folder.with_suffix(".lock").name])
    return filelock.FileLock(folder.with_suffix(".lock"))


def refuse_others(folder: Path) -> None:
    """Raises EntryRefused if somebody else wrote a folder of the cache, or could have: a manifest
    of hashes is no proof against him, and native readers trust what they read."""
    outer = folder.parents[1]
    own = folder.lstat()
    private = not own.st_mode & 0o077
    for path in (folder, *(folder / name for name in names_in(folder, outer))):
        found = path.lstat()
        if found.st_uid not in (os.geteuid(), 0):
            raise EntryRefused(f"{path} belongs to another user (number {found.st_uid}).")
        if found.st_mode & 0o022 and not (private and path != folder):
            raise EntryRefused(f"{path} can be changed by other users.")


def verified_manifest(
    folder: Path, what: str, *, names: Iterable[str] | None = None, hint: str = ""
) -> dict[str, Any]:
    """The manifest, after every file matched its hash. Raises ArtifactDamaged.

    `what` begins the message, e.g. "The index". `names`: the required files; None: those in the
    manifest, and nothing else may be in the folder: a native reader chooses its files itself.
    """
    outer = folder.parents[1]
    try:
        manifest = dict(read_json(folder / MANIFEST, outer))
        hashes = dict(manifest["sha256"])
        expected = {name: str(hashes[name]) for name in (hashes if names is None else names)}
        there = set(names_in(folder, outer))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"{what} {folder} is incomplete or damaged ({type(error).__name__}: {error}).",
            hint=hint,
        ) from error
    except ArtifactDamaged as error:
        raise ArtifactDamaged(
            f"{what} {folder} is incomplete or damaged: {error}", hint=hint
        ) from error
    if names is None and there != {*expected, MANIFEST}:
        raise ArtifactDamaged(
            f"{what} {folder} is incomplete or damaged: its files differ from the list in "
            f"{MANIFEST}.",
            hint=hint,
        )
    for name, digest in expected.items():
        problem = file_problem(folder / name, outer, digest)
        if problem == _CHANGED:
            raise ArtifactDamaged(f"{folder / name} {problem}.", hint=hint)
        if problem:
            raise ArtifactDamaged(
                f"{what} {folder} is incomplete or damaged ({name} {problem}).", hint=hint
            )
    return manifest


def file_problem(path: Path, inside: Path, digest: str, *, from_disk: bool = False) -> str:
    """Why a file below `inside` does not have this SHA-256, e.g. "is missing"; empty if it does.

    `from_disk`: see `sha256_file`.
    """
    try:
        same = sha256_file(path, inside, from_disk=from_disk) == digest
    except FileNotFoundError:
        return "is missing"
    except EntryRefused as error:
        return f"is not used: {str(error).rstrip('.')}"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if same else _CHANGED


# --- candidate tables -----------------------------------------------------------------------------

TABLE_AREA: Final = "candidates"
ARRAYS: Final = ("rows", "ids", "scores", "positive_scores")


def table_digest(folder: Path) -> str:
    """Hash of a table's manifest, for a checkpoint: the manifest holds the hash of every array.
    Raises OSError and EntryRefused."""
    return sha256_file(folder / MANIFEST, folder.parents[1])


def problem_with_table(folder: Path, digest: str = "", *, read_arrays: bool = True) -> str:
    """Why a table cannot be used; empty if it is complete and matches `digest`.

    Without `read_arrays` the arrays need only exist: a table may be larger than the checkpoint.
    """
    try:
        manifest = read_inside(folder / MANIFEST, folder.parents[1], MOST_BYTES)
        if digest and hashlib.sha256(manifest).hexdigest() != digest:
            return f"its candidate table {folder.name} has changed since the checkpoint was saved"
        if read_arrays:
            verified_table(folder)
            return ""
        missing = [name for name in ARRAYS if not (folder / f"{name}.npy").is_file()]
        return (
            f"{missing[0]}.npy is missing in its candidate table {folder.name}" if missing else ""
        )
    except FileNotFoundError:
        return f"its candidate table {folder.name} is missing"
    except OSError as error:
        return f"its candidate table {folder.name} cannot be read ({error.strerror})"
    except ArtifactDamaged as error:
        return f"its candidate table is damaged: {str(error).rstrip('.')}"


def prune_tables(run: Path, kept: Collection[str]) -> None:
    """Removes tables that neither a checkpoint of the run refers to nor `kept` names; other files
    and folders stay. Raises StorageError."""
    candidates = run / "candidates"
    in_use = {*kept, *tables_in_use(run / "checkpoints")}
    try:
        for name in names_in(candidates, run):
            if name not in in_use and _is_table(candidates / name, run):
                remove_at_once(candidates / name, run, TABLE_AREA)
    except OSError as error:
        raise storage_error(error, f"{candidates} while removing old tables") from error


def _is_table(folder: Path, run: Path) -> bool:
    """Whether a run wrote it: a key, or a manifest that repeats the name."""
    if _KEY.fullmatch(folder.name):
        return True
    try:
        return bool(read_json(folder / MANIFEST, run)["key"] == folder.name)
    except (OSError, ArtifactDamaged, LookupError, TypeError):
        return False


def verified_table(folder: Path) -> dict[str, Any]:
    """A table's manifest, after every file matched its hash. Raises ArtifactDamaged."""
    return verified_manifest(
        folder,
        "The candidate table",
        names=[f"{name}.npy" for name in ARRAYS],
        hint="Delete the folder: ttf then mines the candidates again.",
    )


# --- checkpoints ----------------------------------------------------------------------------------

FORMAT: Final = 2
CHECKPOINT: Final = "checkpoint.json"
_OWN_DIGEST: Final = "document_sha256"
CHECKPOINT_AREA: Final = "checkpoint"
_PREFIX: Final = "step-"
_MOST_DIGITS: Final = 19
_UNREADABLE: Final = (OSError, LookupError, TypeError, AttributeError, ValueError)


def path_of(folder: Path, step: int) -> Path:
    return folder / f"{_PREFIX}{step:09d}"


def step_of(path: Path) -> int:
    """-1 for a name that is no checkpoint's."""
    number = path.name.removeprefix(_PREFIX)
    plain = number.isdecimal() and number.isascii() and len(number) < _MOST_DIGITS
    return int(number) if path.name.startswith(_PREFIX) and plain else -1


def candidates_beside(folder: Path) -> Path:
    """The folder of the candidate tables of these checkpoints."""
    return folder.parent / "candidates"


def newest_first(folder: Path) -> list[Path]:
    """`folder`: `checkpoints` in a run's folder. Raises EntryRefused if it is a link."""
    try:
        found = [folder / name for name in names_in(folder, folder.parent)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((path for path in found if step_of(path) >= 0), key=step_of, reverse=True)


def newest_step(folder: Path) -> int:
    """The step of the newest intact checkpoint; -1: there is none. Reads all of it."""
    return next((step_of(path) for path in newest_first(folder) if not problem_with(path)), -1)


def digest_of(manifest: Mapping[str, Any]) -> str:
    # Of the manifest's own content, whose numbers matter as much as the tensors.
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def with_own_digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """For a document whose numbers decide results, and that only ttf writes."""
    return {**document, _OWN_DIGEST: digest_of(document)}


def matches_own_digest(document: Mapping[str, Any]) -> bool:
    """True as well if it has none, as earlier versions wrote it."""
    rest = {name: value for name, value in document.items() if name != _OWN_DIGEST}
    return _OWN_DIGEST not in document or bool(document[_OWN_DIGEST] == digest_of(rest))


def problem_with(path: Path, *, read_tables: bool = True, from_disk: bool = False) -> str:
    """Why a checkpoint cannot be used; empty if it and its candidate table are intact.

    `read_tables` False only checks that the table's files exist. `from_disk`: see `sha256_file`.
    """
    run = path.parents[1]
    try:
        manifest = read_json(path / CHECKPOINT, run)
        if manifest["format"] != FORMAT:
            return (
                f"its format is {manifest['format']}, but this version of ttf reads format {FORMAT}"
            )
        if manifest.pop("sha256") != digest_of(manifest):
            return f"{CHECKPOINT} does not match its SHA-256"
        if manifest["step"] != step_of(path):
            return f"{CHECKPOINT} belongs to step {manifest['step']}"
        files, table = dict(manifest["files"]), dict(manifest["table"])
        table_key = str(table["key"]) if table else ""
        table_sha256 = str(table["sha256"]) if table else ""
    except ArtifactDamaged as error:
        return f"{CHECKPOINT} cannot be read: {str(error).rstrip('.')}"
    except _UNREADABLE as error:
        return f"{CHECKPOINT} cannot be read ({type(error).__name__})"
    for name, digest in files.items():
        if not is_plain_name(name):
            return f"{CHECKPOINT} lists a file {name!r}"
        problem = file_problem(path / name, run, digest, from_disk=from_disk)
        if problem:
            return f"{name} {problem}"
    if not table:
        return ""
    if not is_plain_name(table_key):
        return f"{CHECKPOINT} names a candidate table {table_key!r}"
    table_folder = candidates_beside(path.parent) / table_key
    return problem_with_table(table_folder, table_sha256, read_arrays=read_tables)


def prune(folder: Path, keep: int, *, verified: Path | None = None) -> None:
    """Removes checkpoints older than the `keep` newest intact ones; damaged ones do not count. If all
    of these need one candidate table, of which there is no copy, the newest before it stays, too.

    Call it when the newest is durable (its folder fsynced) and was read back: `verified` is not
    read again. Raises StorageError.
    """
    kept: list[str] = []  # The tables of those that stay, empty for none.
    try:
        for path in newest_first(folder):
            enough = len(kept) >= keep
            if enough and not _needs_another(path, kept):
                remove_at_once(path, folder.parent, CHECKPOINT_AREA)
            elif path == verified or not problem_with(path, read_tables=False):
                kept.append(_table_of(path))
            elif enough:
                remove_at_once(path, folder.parent, CHECKPOINT_AREA)
    except OSError as error:
        raise storage_error(error, f"{folder} while removing old checkpoints") from error


def _needs_another(path: Path, kept: Collection[str]) -> bool:
    """Whether a run could go on from `path` if the only table that those that stay need is damaged."""
    table, *others = {*kept}
    if not table or others or _table_of(path) == table:
        return False
    with contextlib.suppress(ArtifactDamaged, *_UNREADABLE):
        # The old versions of trained rows are gone by then.
        return not read_json(path / CHECKPOINT, path.parents[1])["progress"].get("tables")
    return False


def _table_of(path: Path) -> str:
    """Empty if it needs none, or cannot be read."""
    with contextlib.suppress(ArtifactDamaged, *_UNREADABLE):
        return str(read_json(path / CHECKPOINT, path.parents[1])["table"]["key"])
    return ""


def read_back(path: Path) -> str:
    """Why a checkpoint just made cannot be used; it is removed then, as it was never relied on, and
    every start would read and skip it. Empty if it is intact; newer ones are removed then: the run
    would have continued from them if they were intact. Raises StorageError."""
    problem = problem_with(path, read_tables=False, from_disk=True)
    try:
        newer = [other for other in newest_first(path.parent) if step_of(other) > step_of(path)]
        for gone in [path] if problem else newer:
            remove_at_once(gone, path.parents[1], CHECKPOINT_AREA)
    except OSError as error:
        raise storage_error(error, str(path if problem else path.parent)) from error
    return problem


def tables_in_use(folder: Path) -> set[str]:
    """The candidate tables that some checkpoint refers to."""
    return {_table_of(path) for path in newest_first(folder)} - {""}
