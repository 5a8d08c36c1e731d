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
# number of the system call; libc has no function for it
_KCMP: Final = {"x86_64": 312, "aarch64": 272}
_KCMP_VM: Final = 1
# A child whose memory differs from its parent's by this share has its own: no need to ask.
_DIFFERS: Final = 0.05
# smaps_rollup walks every mapped page (33 ms with 11 GB mapped). It is read again only after this
# many times its duration, so it takes less than 0.05% of a processor.
ROLLUP_DUTY: Final = 2000


class LinuxTree:
    """Reads /proc/<pid>/status of each process of the tree (about 20 us each).

    Only smaps_rollup tells which shared pages several processes have in common. The overlap found
    there is used until smaps_rollup is read again.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._overlap = 0
        self._sharing: frozenset[int] = frozenset()
        self._read_again_at = 0.0

    def __call__(self) -> TreeMemory:
        usage: dict[int, tuple[int, int, int]] = {}
        for pid, parent in _tree(self.pid):
            use = _own_memory(pid, parent, usage.get(parent))
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
    """Returns `pid` and all processes below it, parents first."""
    return [each for each, _ in _tree(pid)]


def _tree(pid: int) -> list[tuple[int, int]]:
    """Returns pairs (process, its parent), parents first."""
    found = [(pid, 0)]
    for parent, _ in found:
        found.extend((child, parent) for child in children(parent))
    return found


def _own_memory(
    pid: int, parent: int, of_parent: tuple[int, int, int] | None
) -> tuple[int, int, int] | None:
    # Between vfork and exec a child has the memory of its parent: returns None then.
    use = status(pid)
    if use is None or of_parent is None or abs(use[0] - of_parent[0]) > of_parent[0] * _DIFFERS:
        return use
    if one_memory(pid, parent):
        return None
    return status(pid)  # it may have become another program since


def one_memory(pid: int, other: int) -> bool:
    """Whether two processes share one address space. False if the kernel does not tell."""
    number = _KCMP.get(os.uname().machine)
    if number is None:
        return False
    return bool(_libc().syscall(number, pid, other, _KCMP_VM, 0, 0) == 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def children(pid: int) -> list[int]:
    """Returns the direct children of a process, of all its threads."""
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
    """Returns RssAnon, RssShmem, RssFile in bytes; None if the process has ended."""
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
    """Returns the proportional share of the process's shared memory.

    Without permission, returns `whole` (all of it): better too much than too little.
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
