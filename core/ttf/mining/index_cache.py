"""Indexes of frozen banks, built once for all runs: `<cache>/index/<key>/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf.contracts import Miner, VectorSource
from ttf.errors import ArtifactDamaged, StorageError, TtfError
from ttf.rundir.durable import folder_written_whole, sha256_file, write_json
from ttf.rundir.verified_folder import folder_key, lock_folder, verified_manifest, write_manifest

_AREA: Final = "index"


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
    key = folder_key(made_from)
    folder = cache / "index" / key
    try:
        lock = lock_folder(folder)
    except OSError as error:
        say(f"The index cache {folder.parent} cannot be used ({error}); building without it.")
        miner.build(source, workdir)
        return _unkept(key, made_from)
    with lock:
        found = _reuse(folder, key, made_from, miner, source, say)
        return found or _build(folder, key, made_from, miner, source, workdir, say)


def write_note(run_index: Path, record: IndexRecord) -> None:
    """`<run>/index/index.json`: the index itself stays in the cache."""
    run_index.mkdir(parents=True, exist_ok=True)
    write_json(run_index / "index.json", record.to_json())


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
        hashes = verified_manifest(folder, "The index")["sha256"]
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
        with folder_written_whole(folder, _AREA) as temp:
            miner.save(temp)
            hashes = {file.name: sha256_file(file) for file in sorted(temp.iterdir())}
            write_manifest(temp, {"key": key, "made_from": dict(made_from)}, hashes, _AREA)
    except StorageError as error:
        say(f"{error} The index is used from memory and not kept. {error.hint}".rstrip())
        return _unkept(key, made_from)
    return _record(folder, key, made_from, hashes, "built")


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
