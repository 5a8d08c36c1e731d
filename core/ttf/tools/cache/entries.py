"""The entries of the cache folder: only what has the form that ttf gives it is listed or removed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.data.shards.cache_folder import LOCK, PART, SHARD, CacheFolder
from ttf.errors import EntryRefused
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import names_in
from ttf.rundir.removing import remove_at_once, remove_if_there
from ttf.rundir.verified_folders import lock_if_free

KINDS: Final = {
    "half": "bfloat16 copies of banks: faster scans",
    "index": "indexes of miners for frozen banks",
    "demo": "the demo data set",
    "objects": "shards of data in object stores, each fetched once",
    "machine": "measured limits of this machine, and choices of ttf bench --tune",
}
# Made again by the next run that needs them; the others only by a measurement.
REMADE: Final = ("half", "index", "demo", "objects")
_FORMS: Final = {
    "half": re.compile(r"[0-9a-f]{24}"),
    "index": re.compile(r"[0-9a-f]{24}"),
    "demo": re.compile(r"v\d+-[\d-]+"),
    "objects": re.compile(r"[0-9a-f]{64}"),
    "machine": re.compile(r"[\w.-]{1,100}"),
}
_HAS: Final = {"half": "manifest.json", "index": "manifest.json", "demo": "done"}
_LOCKED: Final = ("half", "index")  # by a file beside the folder
_SHARDS: Final = "objects"  # several processes use one at a time, each with a lease
_AREA: Final = "cache"


@dataclass(frozen=True, kw_only=True)
class Entry:
    kind: str
    path: Path
    bytes: int
    made: float  # Unix seconds


def entries() -> list[Entry]:
    """The largest first."""
    home = cache_dir()
    found = [entry for kind in KINDS for entry in _of_kind(home, kind)]
    return sorted(found, key=lambda entry: -entry.bytes)


def _of_kind(home: Path, kind: str) -> Iterator[Entry]:
    folder = home / kind
    try:
        names = names_in(folder, home)
    except (FileNotFoundError, NotADirectoryError, EntryRefused):
        return
    for name in names:
        path = folder / name
        if _FORMS[kind].fullmatch(name) and _is_ours(path, kind, home):
            yield Entry(kind=kind, path=path, bytes=_size(path, home), made=path.lstat().st_mtime)


def _is_ours(path: Path, kind: str, home: Path) -> bool:
    if not stat.S_ISDIR(path.lstat().st_mode):
        return False
    names = names_in(path, home)
    if kind == "machine":
        return bool(names) and all(name.endswith(".json") for name in names)
    if kind == _SHARDS:
        return set(names) <= {SHARD, PART, LOCK}
    return _HAS[kind] in names


def _size(path: Path, home: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return sum(os.lstat(path / name).st_size for name in names_in(path, home))
    return 0


def clear(chosen: Iterable[Entry]) -> Iterator[tuple[Entry, str]]:
    """Removes entries one by one; yields each with '' or why it stays. Raises OSError."""
    home = cache_dir()
    for entry in chosen:
        try:
            if entry.kind == _SHARDS:
                yield entry, CacheFolder().remove(entry.path.name)
                continue
            lock = lock_if_free(entry.path) if entry.kind in _LOCKED else contextlib.nullcontext()
            if lock is None:
                yield entry, "a process is using it"
                continue
            with lock:
                remove_at_once(entry.path, home, _AREA)
                if entry.kind in _LOCKED:
                    remove_if_there(entry.path.with_suffix(".lock"), home)
        except FileNotFoundError:
            yield entry, ""  # somebody else has removed it
        except EntryRefused as error:
            yield entry, str(error)
        else:
            yield entry, ""
