"""The control groups a process lives in, version 1 and 2, as folders to read limits from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal


def folders(
    controller: str, root: Path = Path("/"), *, pid: int | Literal["self"] = "self"
) -> Iterator[Path]:
    """The group of a process and all its ancestors: a limit on any of them holds.

    Groups that are not visible here are left out: a container may see its own path named as
    the host sees it, while only its own group is mounted, as the top one.
    """
    base = root / "sys/fs/cgroup"
    for version, path in _groups_of(pid, controller, root):
        mounts = [base, base / "unified"] if version == 2 else [base / controller]
        for mount in mounts:
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts), -1, -1):
                folder = mount.joinpath(*parts[:depth])
                if folder.is_dir():
                    yield folder


def words(path: Path) -> list[str]:
    """The words of a control file, [] where there is none."""
    try:
        return path.read_text().split()
    except (FileNotFoundError, PermissionError):
        return []


def _groups_of(pid: int | Literal["self"], controller: str, root: Path) -> list[tuple[int, str]]:
    try:
        text = (root / f"proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found.append((2, path))
        elif controller in controllers.split(","):
            found.append((1, path))
    return found
