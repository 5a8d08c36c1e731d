"""How much memory this process may use, and who says so."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ttf.memory import cgroup


class Limit(NamedTuple):
    bytes: int
    source: str
    """For a message, e.g. "cgroup /job (memory.max)" or "physical memory"."""


def limit_in_force(root: Path = Path("/")) -> Limit:
    """The smallest of physical memory, the cgroups' limits, RLIMIT_AS and RLIMIT_DATA.

    `root` stands for / in tests. RLIMIT_AS counts address space: mapped files use it up as well.
    """
    return min([*_physical(), *_cgroup_limits(root), *_rlimits()])


def _physical() -> Iterator[Limit]:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    yield Limit(int(psutil.virtual_memory().total), "physical memory")


def _cgroup_limits(root: Path) -> Iterator[Limit]:
    mount = root / "sys/fs/cgroup"
    for folder in cgroup.folders("memory", root):
        for file in ("memory.max", "memory.limit_in_bytes"):
            value = cgroup.words(folder / file)
            if value and value[0] != "max":
                yield Limit(int(value[0]), f"cgroup /{folder.relative_to(mount)} ({file})")


def _rlimits() -> Iterator[Limit]:
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        soft, _ = resource.getrlimit(getattr(resource, name))
        if soft != resource.RLIM_INFINITY:
            yield Limit(soft, name)
