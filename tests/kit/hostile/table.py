"""Folders and files from somebody who means harm: runs, studies, stores, caches, shared folders.

Each maker changes good things in a place (see `Place`) into bad ones. `quick` are command lines that
meet them at once and start no process; the whole set is given to every command where there is time.
"""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.kit.widely import CHAOS

SECRET: Final = "the-secret-of-the-owner"
STRANGER: Final = 12345
TABLE: Final = "0123456789abcdef01234567"
TERABYTE: Final = 1 << 40
BOMB: Final = 1 << 30 if CHAOS else 1 << 26

RUN_COMMANDS: Final = (
    "report run",
    "report run --bundle bundle.zip",
    "explain run",
    "monitor run --once",
    "eval run",
    "search run --queries pairs.npz -k 3",
    "mine run --out found.npz --isolation none",
    "resume run --in-process",
    "runs list .",
    "runs show run",
    "runs diff run run",
    "config show run/run.toml",
    "train run/run.toml --plan",
    "train run/run.toml --out again --in-process",
)
STUDY_COMMANDS: Final = ("report study", "ab --resume study --budget 1ms")
BISECT_COMMANDS: Final = ("bisect --resume study",)
DATA_COMMANDS: Final = (
    "data inspect bad",
    "data verify bad",
    "data convert bad copy.npz",
    "data subset bad part.npz --train 2",
    "data subset pairs.npz part.npz --train 2 --bank bad --bank-out cut.npz",
    "train --pairs pairs.npz --bank bad --plan",
    "train --pairs bad --bank bank.npz --plan",
    "mine --queries bad --bank bank.npz --out found.npz --isolation none",
    "mine --queries pairs.npz --bank bad --out found.npz --isolation none",
    "search run --queries bad -k 3",
    "eval run --pairs bad",
    "eval run --bank bad",
)
CACHE_COMMANDS: Final = (
    "mine --queries pairs.npz --bank bank.npz --miner hnswlib --out found.npz --isolation none",
    "search run --queries pairs.npz -k 3",
    "eval run",
    "cache list",
)


@dataclass(frozen=True)
class Place:
    """`root` holds pairs.npz, bank.npz and a finished run; `outside` is somebody else's, and stays
    as it is; `home` is TTF_HOME."""

    root: Path
    outside: Path
    home: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    def path(self, name: str) -> Path:
        """A file of the run, gone from its place."""
        path = self.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            path.rename(self.root / f"was-{path.name}")
        else:
            path.unlink(missing_ok=True)
        return path


@dataclass(frozen=True)
class Hostile:
    name: str
    make: Callable[[Place], None]
    quick: tuple[str, ...]  # Meets it without a process.
    every: tuple[str, ...]
    root_only: bool = False

    def __str__(self) -> str:
        return self.name


TABLE_OF_ALL: list[Hostile] = []
Added = Callable[[Callable[[Place], None]], Callable[[Place], None]]


def hostile(
    name: str,
    *quick: str,
    every: tuple[str, ...] = RUN_COMMANDS,
    root_only: bool = False,
    one_of_many: bool = False,
) -> Added:
    """`one_of_many`: only a campaign gives it to the commands of `quick`."""

    def add(make: Callable[[Place], None]) -> Callable[[Place], None]:
        at_once = () if one_of_many and not CHAOS else quick or every[:2]
        TABLE_OF_ALL.append(Hostile(name, make, at_once, every, root_only))
        return make

    return add


def prepare(root: Path) -> Place:
    """Fills `outside` and returns the place; `root` has a trained run already."""
    outside = root.parent / "outside"
    (outside / "home" / "letters").mkdir(parents=True)
    (outside / "home" / "letters" / "one.txt").write_text(SECRET)
    (outside / "secret.txt").write_text(f"{SECRET}\n" * 3)
    (outside / TABLE).mkdir()
    (outside / TABLE / "manifest.json").write_text(json.dumps({"key": TABLE, "text": SECRET}))
    (outside / "step-000000001").mkdir()
    (outside / "step-000000001" / "checkpoint.json").write_text(json.dumps({"text": SECRET}))
    (outside / ".tmp-mine").mkdir()
    (outside / ".tmp-mine" / "draft.txt").write_text(SECRET)
    (outside / "001").mkdir()
    (outside / "001" / "incident.json").write_text(json.dumps({"class": SECRET}))
    (outside / "001" / "stderr.txt").write_text(SECRET)
    np.save(outside / "vectors.npy", np.full((40, 8), 0.25, np.float32))
    home = root.parent / "home"
    home.mkdir(exist_ok=True)
    return Place(root, outside, home)


def look(folder: Path) -> dict[str, tuple[Any, ...]]:
    """All that can be told of a folder: names, kinds, owners, rights, times and contents."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = b""
        if stat.S_ISREG(about.st_mode):
            content = hashlib.sha256(path.read_bytes()).digest()
        kind = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
        # The access time tells of reading: see `unread`.
        found[str(path.relative_to(folder))] = (
            *kind,
            about.st_uid,
            about.st_size,
            about.st_mtime_ns,
            about.st_nlink,
            content,
        )
    return found


def written_texts(root: Path, outside: Path) -> Iterator[tuple[Path, bytes]]:
    """What was written in a place: files, and the members of zip files."""
    for path in root.rglob("*"):
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > 1 << 26:
            continue
        if path.suffix == ".zip" and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield path / name, archive.read(name)
        else:
            yield path, path.read_bytes()
