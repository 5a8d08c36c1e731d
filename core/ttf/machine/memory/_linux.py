"""Memory of a process tree from /proc."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from io import FileIO
from typing import Final

from ttf.machine.memory.tree import TreeMemory

GONE = (FileNotFoundError, ProcessLookupError)
_KCMP: Final = {"x86_64": 312, "aarch64": 272}
"""The number of the system call, which libc has no function for."""
_KCMP_VM: Final = 1
_MUCH: Final = 0.05
"""Memory that differs by this share from the parent's is another one: no need to ask."""
ROLLUP_DUTY: Final = 2000
"""smaps_rollup walks every mapped page (33 ms with 11 GB mapped): it is read again only after
this many times what it took, which keeps it below 0.05% of a processor."""


class LinuxTree:
    """Reads /proc/<pid>/status of each process of the tree (about 20 us each).

    Where several processes hold shared memory, how much of it is the same pages is known only
    from smaps_rollup; the overlap found there is used until it is worth reading again.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._overlap = 0
        self._sharing: frozenset[int] = frozenset()
        self._read_again_at = 0.0

    def __call__(self) -> TreeMemory:
        usage: dict[int, tuple[int, int, int]] = {}
        for pid, parent in _family(self.pid):
            use = _of_its_own(pid, parent, usage.get(parent))
            if use is not None:
                usage[pid] = use
        if self.pid not in usage:
            raise ProcessLookupError(f"There is no process {self.pid}.")
        shmem = {pid: use[1] for pid, use in usage.items() if use[1] > 0}
        return TreeMemory(
            anon=sum(use[0] for use in usage.values()),
            shared=self._shared(shmem),
            file=sum(use[2] for use in usage.values()),
            processes=len(usage),
        )

    def _shared(self, shmem: dict[int, int]) -> int:
        total = sum(shmem.values())
        if len(shmem) < 2:
            return total
        now = time.monotonic()
        if now >= self._read_again_at or self._sharing != shmem.keys():
            once = sum(pss_shmem(pid, whole=size) for pid, size in shmem.items())
            self._overlap = max(0, total - once)
            self._sharing = frozenset(shmem)
            self._read_again_at = now + ROLLUP_DUTY * (time.monotonic() - now)
        return max(total - self._overlap, *shmem.values())


def descendants(pid: int) -> list[int]:
    """`pid` and all below it, parents first."""
    return [each for each, _ in _family(pid)]


def _family(pid: int) -> list[tuple[int, int]]:
    """(process, its parent), parents first."""
    found = [(pid, 0)]
    for parent, _ in found:
        found.extend((child, parent) for child in children(parent))
    return found


def _of_its_own(
    pid: int, parent: int, of_parent: tuple[int, int, int] | None
) -> tuple[int, int, int] | None:
    """Between vfork and exec a child *is* its parent, as far as memory goes: then None."""
    use = status(pid)
    if use is None or of_parent is None or abs(use[0] - of_parent[0]) > of_parent[0] * _MUCH:
        return use
    if one_memory(pid, parent):
        return None
    return status(pid)  # it may have become another program since


def one_memory(pid: int, other: int) -> bool:
    """Whether two processes share one address space; False where the kernel does not tell."""
    number = _KCMP.get(os.uname().machine)
    if number is None:
        return False
    return bool(_libc().syscall(number, pid, other, _KCMP_VM, 0, 0) == 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def children(pid: int) -> list[int]:
    """The direct children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        with os.scandir(f"/proc/{pid}/task") as tasks:
            names = [task.name for task in tasks]
        for name in names:
            found.extend(map(int, _read(f"/proc/{pid}/task/{name}/children").split()))
    except GONE:
        # The process or one of its threads has just ended, or the kernel lacks
        # CONFIG_PROC_CHILDREN.
        return _children_by_parent(pid)
    return found


def _children_by_parent(pid: int) -> list[int]:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def status(pid: int) -> tuple[int, int, int] | None:
    """RssAnon, RssShmem, RssFile in bytes; None for a process that has ended."""
    try:
        text = _read(f"/proc/{pid}/status")
    except GONE:
        return None
    start = text.find(b"RssAnon:")
    if start < 0:  # a zombie has no memory left
        return None
    words = text[start : start + 120].split()
    # RssAnon: N kB RssFile: N kB RssShmem: N kB
    return int(words[1]) << 10, int(words[7]) << 10, int(words[4]) << 10


def pss_shmem(pid: int, whole: int) -> int:
    """The process's proportional share of its shared memory.

    `whole` (all of it) where the kernel will not tell: that is too much rather than too little.
    """
    try:
        text = _read(f"/proc/{pid}/smaps_rollup")
    except GONE:
        return 0
    except PermissionError:
        return whole
    for line in text.splitlines():
        if line.startswith(b"Pss_Shmem:"):
            return int(line.split()[1]) << 10
    return whole


def _read(path: str) -> bytes:
    # Four times as fast as pathlib, and this runs several times a second beside the training.
    with FileIO(path) as file:
        return file.readall()
