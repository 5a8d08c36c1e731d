"""The folder of something new: the next free number, or one that the user named, in which nothing
of the user's may be replaced."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from ttf.errors import ConfigError
from ttf.rundir.removing import remove_if_possible

_MOST_NAMED = 4


def make_next(runs: Path, kind: str) -> Path:
    """Makes the next free folder, "<kind>-004"; two processes at once get two folders."""
    taken = [path.name.removeprefix(f"{kind}-") for path in runs.glob(f"{kind}-*")]
    numbers = [int(name) for name in taken if name.isdecimal()]
    for number in itertools.count(max(numbers, default=0) + 1):
        path = runs / f"{kind}-{number:03d}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError


def remove_partial(path: Path, files: Iterable[str], folders: Iterable[str]) -> None:
    """Removes parts of a new folder when the disk takes no more."""
    for name in files:
        remove_if_possible(path / name, path)
    for name in folders:
        with contextlib.suppress(OSError):
            (path / name).rmdir()
    with contextlib.suppress(OSError):
        path.rmdir()


def refuse_taken(folder: Path, names: Iterable[str], noun: str) -> None:
    """Raises ConfigError if the folder has anything of these names. `noun`: what would write them,
    which the caller has found not to be there."""
    taken = sorted(name for name in names if _holds_something(folder / name))
    if taken:
        more = ", ..." if len(taken) > _MOST_NAMED else ""
        them = "it" if len(taken) == 1 else "them"
        raise ConfigError(
            f"{folder} contains {', '.join(taken[:_MOST_NAMED])}{more}, but no {noun}. A new {noun} "
            f"would replace {them}.",
            hint="Choose another --out, or move the files away first.",
        )


def _holds_something(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        return any(path.iterdir())
    return os.path.lexists(path)
