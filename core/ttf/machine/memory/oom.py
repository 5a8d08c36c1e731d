"""Counters of the kernel's memory kills. A counter that rose tells the OOM killer from `kill -9`:
both leave the same signal, and nothing else.

Linux only; elsewhere nothing is found and nothing is claimed.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from ttf.machine.memory import cgroup

MACHINE: Final = "/proc/vmstat"
"""The source that counts every kill on the machine, whoever was the victim."""
_FILES: Final = ("memory.events.local", "memory.events", "memory.oom_control")
_KEYS: Final = ("oom_kill", "oom_group_kill")
_RECENT_S: Final = 10.0
"""A rise that was seen longer than this before a process ended was another's death."""


@dataclass(frozen=True, kw_only=True)
class OomCounters:
    """How many processes the kernel has killed for memory, by counter."""

    counts: Mapping[Path, int]
    """By file: those of the process's own group, then the machine's."""
    root: Path = Path("/")

    @classmethod
    def read(cls, pid: int | Literal["self"] = "self", root: Path = Path("/")) -> Self:
        """The counters of the group that `pid` lives in; call while it lives: its group is not
        known afterwards, and a kill counts in the victim's group only."""
        return cls(counts=dict(_counted(_files(pid, root))), root=root)

    def again(self) -> OomCounters:
        """The same counters now; one that is gone with its group is left out."""
        return OomCounters(counts=dict(_counted(self.counts)), root=self.root)

    def rise_since(self, before: OomCounters) -> tuple[int, str]:
        """By how much a counter rose, and which one; (0, "") where none could be read twice.

        The machine's counter speaks only where the group has none: a rise there may be anybody's.
        """
        machine = self.root / MACHINE.lstrip("/")
        rises = {
            file: max(0, count - before.counts[file])
            for file, count in self.counts.items()
            if file in before.counts
        }
        own = {file: rise for file, rise in rises.items() if file != machine} or rises
        if not own:
            return 0, ""
        file = max(own, key=own.__getitem__)
        return own[file], self._source(file)

    def _source(self, file: Path) -> str:
        mount = self.root / "sys/fs/cgroup"
        if not file.is_relative_to(mount):
            return f"{MACHINE} (oom_kill)"
        return f"cgroup /{file.parent.relative_to(mount)} ({file.name})"


class OomWatch:
    """Follows the counters of one process while it lives, so that a kill that happened to another
    process of its group is not taken for its own."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._pid, self._root = pid, root
        self._first: dict[Path, int] = {}
        self._changes: deque[tuple[float, dict[Path, int]]] = deque()
        self.look()

    def look(self, now: float | None = None) -> None:
        """Call it now and then (once a second) while the process is alive."""
        now = time.monotonic() if now is None else now
        # A process may be moved to another group; one that is ending may seem to be in the root.
        files = dict.fromkeys([*_files(self._pid, self._root), *self._first])
        counts = dict(_counted(files))
        for file, count in counts.items():
            self._first.setdefault(file, count)
        if not self._changes or self._changes[-1][1] != counts:
            self._changes.append((now, counts))
        while len(self._changes) > 1 and self._changes[1][0] <= now - _RECENT_S:
            self._changes.popleft()

    def rise(self, now: float | None = None) -> tuple[int, str]:
        """(count, source) of the rise that belongs to the process's end, which is now."""
        now = time.monotonic() if now is None else now
        last = OomCounters(counts=dict(_counted(self._first)), root=self._root)
        settled = [counts for seen, counts in self._changes if seen <= now - _RECENT_S]
        before = self._first | (settled[-1] if settled else {})
        return last.rise_since(OomCounters(counts=before, root=self._root))


def _files(pid: int | Literal["self"], root: Path) -> Iterator[Path]:
    """Of the nearest group that counts: without the memory controller, a group's memory is its
    parent's. `memory.events` counts the groups below as well, and is read where `.local` is not.
    """
    for folder in cgroup.folders("memory", root, pid=pid):
        counter = next((f for name in _FILES if _count(f := folder / name) is not None), None)
        if counter is not None:
            yield counter
            break
    yield root / MACHINE.lstrip("/")


def _counted(files: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    for file in files:
        count = _count(file)
        if count is not None:
            yield file, count


def _count(file: Path) -> int | None:
    """The number after `oom_kill`; old kernels count only whole groups, under the other key."""
    try:
        words = cgroup.words(file)
    except OSError:  # ENODEV: the group was removed while we looked
        return None
    values = dict(itertools.pairwise(words))
    for key in _KEYS:
        if values.get(key, "").isdigit():
            return int(values[key])
    return None
