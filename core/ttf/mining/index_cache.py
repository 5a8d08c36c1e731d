"""Indexes of frozen banks, built once for all runs: `<cache>/index/<key>/`.

An index is loaded only after every byte matched its hash: native readers die of damaged files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf.contracts import Miner, VectorSource
from ttf.errors import ArtifactDamaged, StorageError, TtfError
from ttf.rundir.durable import TEMP_PREFIX, folder_written_whole, read_json, sha256_file, write_json

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class IndexRecord:
    """Which index a run searched, and where it came from; JSON in the run's `index/index.json`."""

    key: str
    origin: Literal["built", "reused"]
    path: str | None
    """None: it could not be kept, and was used from memory."""
    size_bytes: int
    sha256: Mapping[str, str]
    made_from: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def index_key(made_from: Mapping[str, Any]) -> str:
    """The name of an index: a hash of everything its content follows from."""
    text = json.dumps(made_from, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def ready_index(
    cache: Path,
    made_from: Mapping[str, Any],
    miner: Miner,
    source: VectorSource,
    workdir: Path,
    say: Callable[[str], None],
) -> IndexRecord:
    """Makes `miner` ready to search: from the cache, or built and put there.

    Two runs never build the same index at once; the second waits and loads. An index that cannot
    be kept is used all the same, and said.
    """
    import filelock

    key = index_key(made_from)
    folder = cache / "index" / key
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder.with_suffix(".lock"))
        lock.acquire()
    except OSError as error:
        say(f"The index cache {folder.parent} cannot be used ({error}); building without it.")
        miner.build(source, workdir)
        return _unkept(key, made_from)
    try:
        _remove_leftovers(folder)
        found = _reuse(folder, key, made_from, miner, source, say)
        return found or _build(folder, key, made_from, miner, source, workdir, say)
    finally:
        lock.release()


def write_note(run_index: Path, record: IndexRecord) -> None:
    """`<run>/index/index.json`: the index itself stays in the cache."""
    run_index.mkdir(parents=True, exist_ok=True)
    write_json(run_index / "index.json", record.to_json())


def _remove_leftovers(folder: Path) -> None:
    """Of builders of this very index that were killed: we hold its lock. Others may be at work."""
    for left in folder.parent.glob(f"{TEMP_PREFIX}{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _reuse(
    folder: Path,
    key: str,
    made_from: Mapping[str, Any],
    miner: Miner,
    source: VectorSource,
    say: Callable[[str], None],
) -> IndexRecord | None:
    if not folder.exists():
        return None
    try:
        hashes = _verified(folder)
        miner.load(folder, source)
    except ArtifactDamaged as error:
        say(f"{error} The index is built anew.")
        return None
    except TtfError:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's code: a file it cannot read is no death
        say(
            f"The miner could not load the index {folder} ({type(error).__name__}: {error}); it is "
            "built anew."
        )
        return None
    return _record(folder, key, made_from, hashes, "reused")


def _build(
    folder: Path,
    key: str,
    made_from: Mapping[str, Any],
    miner: Miner,
    source: VectorSource,
    workdir: Path,
    say: Callable[[str], None],
) -> IndexRecord:
    miner.build(source, workdir)
    try:
        with folder_written_whole(folder) as temp:
            miner.save(temp)
            hashes = {file.name: sha256_file(file) for file in sorted(temp.iterdir())}
            write_json(
                temp / MANIFEST, {"key": key, "made_from": dict(made_from), "sha256": hashes}
            )
    except StorageError as error:
        say(f"{error} The index is used from memory and not kept. {error.hint}".rstrip())
        return _unkept(key, made_from)
    return _record(folder, key, made_from, hashes, "built")


def _verified(folder: Path) -> dict[str, str]:
    try:
        hashes = dict(read_json(folder / MANIFEST)["sha256"])
        found = {name: sha256_file(folder / name) for name in hashes}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactDamaged(
            f"The index {folder} is not whole ({type(error).__name__}: {error})."
        ) from error
    wrong = [name for name in hashes if found[name] != hashes[name]]
    if wrong:
        raise ArtifactDamaged(f"{folder / wrong[0]} does not match its hash.")
    return hashes


def _record(
    folder: Path,
    key: str,
    made_from: Mapping[str, Any],
    hashes: Mapping[str, str],
    origin: Literal["built", "reused"],
) -> IndexRecord:
    size = sum((folder / name).stat().st_size for name in hashes)
    return IndexRecord(
        key=key,
        origin=origin,
        path=str(folder),
        size_bytes=size,
        sha256=hashes,
        made_from=made_from,
    )


def _unkept(key: str, made_from: Mapping[str, Any]) -> IndexRecord:
    return IndexRecord(
        key=key, origin="built", path=None, size_bytes=0, sha256={}, made_from=made_from
    )
