"""How much memory a process may use, and who says so."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ttf.machine.memory import cgroup
from ttf.text.numbers import parse_bytes


class Limit(NamedTuple):
    bytes: int
    source: str
    """For a message, e.g. "cgroup /job (memory.max)" or "physical memory"."""


RLIMITS = ("RLIMIT_AS", "RLIMIT_DATA")


def budget_bytes(setting: int | str) -> int:
    """What `memory.budget` comes to: "auto" is a quarter of the limit in force, at least 1 GiB."""
    if setting != "auto":
        return parse_bytes(setting)
    return max(2**30, limit_in_force().bytes // 4)


def limit_in_force(root: Path = Path("/"), pid: int | None = None) -> Limit:
    """The smallest of physical memory, the cgroups' limits, RLIMIT_AS and RLIMIT_DATA.

    Of the process `pid`; None: of this one. `root` stands for / in tests. RLIMIT_AS counts address
    space: mapped files use it up as well.
    """
    groups = (limit for _, limit in group_limits(root, pid))
    return min([*_physical(), *groups, *rlimits(pid)])


def _physical() -> Iterator[Limit]:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    yield Limit(int(psutil.virtual_memory().total), "physical memory")


def group_limits(root: Path = Path("/"), pid: int | None = None) -> Iterator[tuple[Path, Limit]]:
    """Every limit of the cgroups of a process, with the folder that says so. Version 1 has no
    word for "none": a limit there may be far beyond any memory."""
    mount = root / "sys/fs/cgroup"
    for folder in cgroup.folders("memory", root, pid="self" if pid is None else pid):
        for file in ("memory.max", "memory.limit_in_bytes"):
            value = cgroup.words(folder / file)
            if value and value[0] != "max":
                name = f"cgroup /{folder.relative_to(mount)} ({file})"
                yield folder, Limit(int(value[0]), name)


def rlimits(pid: int | None = None) -> Iterator[Limit]:
    """RLIMIT_AS and RLIMIT_DATA of a process, where set; those of another only on Linux."""
    for name in RLIMITS:
        which = getattr(resource, name)
        if pid is None:
            soft, _ = resource.getrlimit(which)
        elif sys.platform == "linux":
            try:
                soft, _ = resource.prlimit(pid, which)
            except PermissionError:  # it became another user's, as under sudo
                return
        else:
            return
        if soft != resource.RLIM_INFINITY:
            yield Limit(soft, name)
