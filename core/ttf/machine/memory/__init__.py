"""Memory of a process and its children: anonymous, shared and file-backed, and the limit in force.

A figure that mixes them cries "leak" at every mapped file: what counts against us is anonymous
and shared memory; file-backed pages are the page cache's and go when others need them.
"""

from __future__ import annotations

import sys

from ttf.machine.memory._types import MemoryPoint, TreeMemory, TreeReader
from ttf.machine.memory.curve import MemoryCurve
from ttf.machine.memory.limits import Limit, budget_bytes, limit_in_force
from ttf.machine.memory.pressure import Gauge, Reading

__all__ = [
    "Gauge",
    "Limit",
    "MemoryCurve",
    "MemoryPoint",
    "Reading",
    "TreeMemory",
    "budget_bytes",
    "limit_in_force",
    "tree_memory",
    "tree_reader",
]


def tree_memory(pid: int) -> TreeMemory:
    """The memory of `pid` and all its descendants now; raises ProcessLookupError if it is gone.

    Shared pages (shm, shared anonymous maps, tmpfs files) count once, however many processes of
    the tree map them. On macOS: see `ttf.machine.memory._darwin`.
    """
    return tree_reader(pid)()


def tree_reader(pid: int) -> TreeReader:
    """The same for repeated calls: expensive parts are read less often than the cheap ones."""
    if sys.platform == "darwin":
        from ttf.machine.memory._darwin import DarwinTree

        return DarwinTree(pid)
    from ttf.machine.memory._linux import LinuxTree

    return LinuxTree(pid)
