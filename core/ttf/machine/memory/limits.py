"""Control groups (version 1 and 2) of a process, its memory limits with their source, and OOM
kills.

Only the count of OOM kills separates the OOM killer from `kill -9`: the signal is the same. Linux
only; other systems find nothing.
"""

from __future__ import annotations

import itertools
import os
import resource
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from ttf.process import platform
from ttf.text.numbers import parse_bytes

RLIMITS: Final = ("RLIMIT_AS", "RLIMIT_DATA")
# How a shell sets them.
ULIMITS: Final = {"RLIMIT_AS": "ulimit -v", "RLIMIT_DATA": "ulimit -d"}
# counts every kill on the machine, not only in this process's group
MACHINE: Final = "/proc/vmstat"
_FILES: Final = ("memory.events.local", "memory.events", "memory.oom_control")
_KEYS: Final = ("oom_kill", "oom_group_kill")
# An increase seen longer than this before the end of the process belongs to another process.
_RECENT_S: Final = 10.0

# --- control groups --------------------------------------------------------------------------------


def group_folders(
    controller: str, root: Path = Path("/"), *, pid: int | Literal["self"] = "self"
) -> Iterator[Path]:
    """Yields the group of a process and all its ancestors: limits of all of them hold.

    Groups that are not visible are left out: a container may see its path as the host names it,
    while only its own group is mounted, as the top group.
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


def group_words(path: Path) -> list[str]:
    """Returns the words of a control file; [] without the file."""
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


# --- limits ----------------------------------------------------------------------------------------


class Limit(NamedTuple):
    bytes: int
    source: str  # for messages: "cgroup /job (memory.max)" or "physical memory"


def budget_bytes(setting: int | str) -> int:
    """Returns `memory.budget` in bytes: "auto" is a quarter of the limit in force, at least 1
    GiB."""
    if setting == "auto":
        return max(2**30, limit_in_force().bytes // 4)
    return setting if isinstance(setting, int) else parse_bytes(setting)


def limit_in_force(root: Path = Path("/"), pid: int | None = None) -> Limit:
    """Returns the smallest of physical memory, cgroup limits, RLIMIT_AS and RLIMIT_DATA.

    `pid` None: of this process. `root` replaces / in tests. RLIMIT_AS counts address space, which
    mapped files use up as well.
    """
    groups = (limit for _, limit in group_limits(root, pid))
    return min([*_physical(), *groups, *rlimits(pid)])


def _physical() -> Iterator[Limit]:
    yield Limit(physical_bytes(), "physical memory")


def physical_bytes() -> int:
    if platform.LINUX and not platform.PROC:  # psutil reads /proc/meminfo
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import psutil  # type: ignore[import-untyped, unused-ignore]

    return int(psutil.virtual_memory().total)


def group_limits(root: Path = Path("/"), pid: int | None = None) -> Iterator[tuple[Path, Limit]]:
    """Yields all cgroup limits of a process with their folders.

    Version 1 has no word for "none": a limit may be far above any memory.
    """
    mount = root / "sys/fs/cgroup"
    for folder in group_folders("memory", root, pid="self" if pid is None else pid):
        for file in ("memory.max", "memory.limit_in_bytes"):
            value = group_words(folder / file)
            if value and value[0] != "max":
                name = f"cgroup /{folder.relative_to(mount)} ({file})"
                yield folder, Limit(int(value[0]), name)


def rlimits(pid: int | None = None) -> Iterator[Limit]:
    """Yields RLIMIT_AS and RLIMIT_DATA if set; for other processes only on Linux."""
    for name in RLIMITS:
        which = getattr(resource, name)
        if pid is None:
            soft, _ = resource.getrlimit(which)
        elif platform.LINUX:
            try:
                soft, _ = resource.prlimit(pid, which)
            except PermissionError:  # it became another user's, as under sudo
                return
        else:
            return
        if soft != resource.RLIM_INFINITY:
            yield Limit(soft, name)


# --- kills for memory ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OomCounters:
    """How many processes the kernel has killed for memory, by counter file."""

    counts: Mapping[Path, int]  # first the process's own group, then the machine
    root: Path = Path("/")

    @classmethod
    def read(cls, pid: int | Literal["self"] = "self", root: Path = Path("/")) -> Self:
        """Reads the counters of the group of `pid`.

        Call it while `pid` lives: afterwards its group is not known, and a kill counts only in the
        group of the killed process.
        """
        return cls(counts=dict(_read_counts(_counter_files(pid, root))), root=root)

    def again(self) -> OomCounters:
        """Reads the same counters again, without those removed together with their group."""
        return OomCounters(counts=dict(_read_counts(self.counts)), root=self.root)

    def rise_since(self, before: OomCounters) -> tuple[int, str]:
        """Returns the largest increase and its counter; (0, "") if no counter could be read twice.

        The machine's counter is used only if the group has no counter: any process of the machine
        may have caused its increase.
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
    """Follows the counters while a process lives, so that a kill of another process of its group is
    not attributed to it."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._pid, self._root = pid, root
        self._first: dict[Path, int] = {}
        self._changes: deque[tuple[float, dict[Path, int]]] = deque()
        self.look()

    def look(self, now: float | None = None) -> None:
        """Call about once a second while the process is alive."""
        now = time.monotonic() if now is None else now
        # A process may be moved to another group; one that is ending may seem to be in the root.
        files = dict.fromkeys([*_counter_files(self._pid, self._root), *self._first])
        counts = dict(_read_counts(files))
        for file, count in counts.items():
            self._first.setdefault(file, count)
        if not self._changes or self._changes[-1][1] != counts:
            self._changes.append((now, counts))
        while len(self._changes) > 1 and self._changes[1][0] <= now - _RECENT_S:
            self._changes.popleft()

    def rise(self, now: float | None = None) -> tuple[int, str]:
        """Returns (count, source) of the increase that belongs to the process's end, which is
        now."""
        now = time.monotonic() if now is None else now
        last = OomCounters(counts=dict(_read_counts(self._first)), root=self._root)
        settled = [counts for seen, counts in self._changes if seen <= now - _RECENT_S]
        before = self._first | (settled[-1] if settled else {})
        return last.rise_since(OomCounters(counts=before, root=self._root))


def _counter_files(pid: int | Literal["self"], root: Path) -> Iterator[Path]:
    """Yields the counter of the nearest group that has one: without the memory controller, a
    group's memory counts in its parent.

    `memory.events` includes child groups; it is read if `.local` is missing.
    """
    for folder in group_folders("memory", root, pid=pid):
        counter = next((f for name in _FILES if _count(f := folder / name) is not None), None)
        if counter is not None:
            yield counter
            break
    yield root / MACHINE.lstrip("/")


def _read_counts(files: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    for file in files:
        count = _count(file)
        if count is not None:
            yield file, count


def _count(file: Path) -> int | None:
    # Old kernels count only whole groups, under the other key.
    try:
        words = group_words(file)
    except OSError:  # ENODEV: the group was removed while we looked
        return None
    values = dict(itertools.pairwise(words))
    for key in _KEYS:
        if values.get(key, "").isdigit():
            return int(values[key])
    return None
