"""Memory of a process tree: the types that all platforms share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class TreeMemory(NamedTuple):
    """Bytes held by a process and its descendants."""

    # Private: heap, stacks, allocations. Copy-on-write pages of a forked child count in both
    # processes (`ttf` spawns its children).
    anon: int
    # Shared memory and files on tmpfs, each page once. Cannot be dropped.
    shared: int
    # Mapped files in memory: page cache, freed on demand. A page mapped by two processes counts
    # twice.
    file: int
    processes: int

    @property
    def held(self) -> int:
        """What counts against a limit: anonymous and shared memory."""
        return self.anon + self.shared


class TreeReader(Protocol):
    def __call__(self) -> TreeMemory: ...


class Unmeasured:
    """For a system that does not tell: zeros as long as the process is there."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __call__(self) -> TreeMemory:
        os.kill(self.pid, 0)  # ProcessLookupError
        return TreeMemory(anon=0, shared=0, file=0, processes=1)


class Device(NamedTuple):
    """Bytes of the trainer's device at its last step; None: a device without memory of its own."""

    allocated: int | None = None
    cached: int | None = None  # all that torch took from it, to give it out again


class Machine(NamedTuple):
    """What a machine has left for everybody."""

    available: int = 0
    swap_used: int = 0
    swap_free: int = 0


class Place(NamedTuple):
    """Where a trainer is."""

    step: int = 0
    phase: str | None = None
    device: Device = Device()


@dataclass(frozen=True, kw_only=True)
class MemoryPoint:
    """One sample of a process tree, in bytes."""

    time: float
    step: int
    anon: int
    shared: int
    file: int
    limit: int
    phase: str | None = None  # of the trainer, if there is one
    device: Device = field(default_factory=Device)
    machine: Machine = field(default_factory=Machine)

    @property
    def held(self) -> int:
        return self.anon + self.shared
