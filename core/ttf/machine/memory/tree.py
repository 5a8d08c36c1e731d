"""What the platforms have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class TreeMemory(NamedTuple):
    """Bytes held by a process and its descendants."""

    anon: int
    """Private: heap, stacks, what was allocated. Copy-on-write pages of a *forked* child count
    in both; children of `ttf` are spawned."""
    shared: int
    """Shared memory and files on tmpfs, each page once; it cannot be dropped either."""
    file: int
    """Mapped files that are in memory now: page cache, given back on demand. A page that two
    processes map counts twice."""
    processes: int

    @property
    def held(self) -> int:
        """What counts against a limit: anonymous and shared."""
        return self.anon + self.shared


class TreeReader(Protocol):
    def __call__(self) -> TreeMemory: ...


@dataclass(frozen=True, kw_only=True)
class MemoryPoint:
    """One look at a process tree, in bytes; `held` is anonymous plus shared."""

    time: float
    step: int
    anon: int
    shared: int
    file: int
    limit: int

    @property
    def held(self) -> int:
        return self.anon + self.shared
