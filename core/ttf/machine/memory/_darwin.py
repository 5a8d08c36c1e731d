"""Memory of a process tree on macOS. Tested on fixtures only, not on a Mac.

The kernel counts `phys_footprint` against a process. psutil does not offer it; the nearest figure
is `uss` (pages freed if the process ended now). It leaves out compressed pages, so it reads low
under memory pressure. Shared pages cannot be separated from mapped files: both are `rss - uss`,
reported as `file`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ttf.machine.memory.tree import TreeMemory


def _process(pid: int) -> Any:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    return psutil.Process(pid)


class DarwinTree:
    """`open_process` makes a psutil.Process from a pid. Tests pass recorded processes."""

    def __init__(self, pid: int, open_process: Callable[[int], Any] = _process) -> None:
        self.pid = pid
        self._open = open_process

    def __call__(self) -> TreeMemory:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        try:
            root = self._open(self.pid)
            tree = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            raise ProcessLookupError(f"There is no process {self.pid}.") from None
        anon = file = processes = 0
        for process in tree:
            try:
                use = process.memory_full_info()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                if process is root:
                    raise ProcessLookupError(f"There is no process {self.pid}.") from None
                continue
            except psutil.AccessDenied:
                # A child of another user or a hardened one: its whole rss, too much rather
                # than too little.
                anon += process.memory_info().rss
                processes += 1
                continue
            anon += use.uss
            file += max(0, use.rss - use.uss)
            processes += 1
        return TreeMemory(anon=anon, shared=0, file=file, processes=processes)
