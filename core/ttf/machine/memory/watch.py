"""The memory of a process tree over time (`MemoryCurve`), and how near it is to a limit (`Gauge`).

Only anonymous and shared memory counts as held. File-backed pages belong to the page cache and are
freed on demand: counting them would report a leak at every mapped file.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

from ttf.machine.memory.limits import (
    Limit,
    group_limits,
    limit_in_force,
    physical_bytes,
    rlimits,
)
from ttf.machine.memory.tree import (
    Machine,
    MemoryPoint,
    Place,
    TreeMemory,
    TreeReader,
    Unmeasured,
)
from ttf.process import platform
from ttf.process.activity import has_ended
from ttf.rundir.confined import append_inside
from ttf.rundir.documents import MemoryLine
from ttf.text.numbers import size

LINE_EVERY_S: Final = 1.0
KEEP_S: Final = 600.0
_MOST_POINTS: Final = 4096
# Limits and processes rarely change, and finding them costs more than a reading.
LOOK_AGAIN_S: Final = 2.0
_STAT_KEYS: Final = {
    "memory.max": (b"\nanon ", b"\nshmem "),
    "memory.limit_in_bytes": (b"\ntotal_rss ", b"\ntotal_shmem "),
}
_STATUS_KEYS: Final = {"RLIMIT_AS": b"\nVmSize:", "RLIMIT_DATA": b"\nVmData:"}


def tree_reader(pid: int) -> TreeReader:
    """Returns a reader of the memory of `pid` and all its descendants.

    The reader does expensive work less often than cheap work, and raises ProcessLookupError once
    `pid` is gone. Shared pages (shm, shared anonymous maps, tmpfs files) count once for the whole
    tree. For macOS see `ttf.machine.memory._darwin`. Without /proc, all is 0.
    """
    if platform.MACOS:
        from ttf.machine.memory._darwin import DarwinTree

        return DarwinTree(pid)
    if not platform.PROC:
        return Unmeasured(pid)
    from ttf.machine.memory._linux import LinuxTree

    return LinuxTree(pid)


def held_by(pid: int | None) -> int:
    """Anonymous and shared memory of one process without its children; 0 if there is none, or where
    only trees can be read."""
    if pid is None or not platform.PROC:
        return 0
    from ttf.machine.memory._linux import status

    found = status(pid)
    return 0 if found is None else found[0] + found[1]


class MemoryCurve:
    """Samples on each call of `look`; appends a line to `path` at most once a second.

    A full disk does not end the run: see `failure`.
    """

    def __init__(self, pid: int, path: Path, *, place: Callable[[], Place] = Place) -> None:
        self.path = path
        self.limited_pid = pid  # whose limits `limit_of` reads
        self.limit_of: Callable[[], Limit] = partial(limit_in_force, pid=pid)
        self.peak_bytes = 0  # highest anonymous plus shared memory of all samples
        # Why the last line could not be written. Later lines are still tried.
        self.failure: OSError | None = None
        self.limit = self.limit_of()
        self._limit_at = time.monotonic()
        self._read = tree_reader(pid)
        self._place = place
        # With the monotonic time of each: the clock of the points may jump.
        self._points: deque[tuple[float, MemoryPoint]] = deque(maxlen=_MOST_POINTS)
        self._next_line = 0.0

    @property
    def points(self) -> tuple[MemoryPoint, ...]:
        """The last ten minutes, oldest first."""
        return tuple(point for _, point in self._points)

    @property
    def held_bytes(self) -> int:
        """Anonymous plus shared memory at the last sample. Does not sample."""
        return self._points[-1][1].held if self._points else 0

    def look(self, *, line: bool = False) -> TreeMemory:
        """Samples now. `line=True` writes a line in any case.

        Raises ProcessLookupError if the process is gone.
        """
        memory, place = self._read(), self._place()
        due = time.monotonic() - self._limit_at >= LOOK_AGAIN_S
        if due and not (platform.LINUX and has_ended(self.limited_pid)):  # it may have changed
            self.limit, self._limit_at = self.limit_of(), time.monotonic()
        point = MemoryPoint(
            time=round(time.time(), 3),
            step=place.step,
            phase=place.phase,
            device=place.device,
            machine=machine_memory(),
            anon=memory.anon,
            shared=memory.shared,
            file=memory.file,
            limit=self.limit.bytes,
        )
        self.peak_bytes = max(self.peak_bytes, memory.held)
        self._keep(point)
        if line or time.monotonic() >= self._next_line:
            self._write(point, memory.processes)
        return memory

    def _keep(self, point: MemoryPoint) -> None:
        now = time.monotonic()
        self._points.append((now, point))
        while self._points[0][0] < now - KEEP_S:
            self._points.popleft()

    def _write(self, point: MemoryPoint, processes: int) -> None:
        self._next_line = time.monotonic() + LINE_EVERY_S
        line: MemoryLine = {
            "time": point.time,
            "step": point.step,
            "anon": point.anon,
            "shared": point.shared,
            "file": point.file,
            "processes": processes,
            "peak": self.peak_bytes,
            "limit": point.limit,
            "phase": point.phase,
            "device_allocated": point.device.allocated,
            "device_cached": point.device.cached,
            "available": point.machine.available,
            "swap_used": point.machine.swap_used,
            "swap_free": point.machine.swap_free,
        }
        try:
            _append(self.path, json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.failure = error
        else:
            self.failure = None


def _append(path: Path, line: bytes) -> None:
    # All or nothing, also if the disk becomes full during the write.
    with append_inside(path, path.parent) as file:
        size = file.seek(0, os.SEEK_END)
        if file.write(line) != len(line):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def machine_memory(root: Path = Path("/")) -> Machine:
    """Zeros where the system does not tell."""
    path = root / "proc/meminfo"
    if platform.LINUX:
        if not platform.PROC:
            return Machine()
        text = b"\n" + _read(str(path))
        keys = (b"\nMemAvailable:", b"\nSwapTotal:", b"\nSwapFree:")
        available, total, free = (_number(text, key) << 10 for key in keys)
        return Machine(available=available, swap_used=total - free, swap_free=free)
    import psutil  # type: ignore[import-untyped, unused-ignore]

    swap = psutil.swap_memory()
    return Machine(psutil.virtual_memory().available, swap.used, swap.free)


# --- how near to a limit ---------------------------------------------------------------------------


class Reading(NamedTuple):
    """The use of one limit."""

    share: float  # 1.0: all of it is used
    held: int
    limit: int
    source: str  # "cgroup /job (memory.max)", "physical memory", "RLIMIT_AS of process 7"
    text: str  # '7.6 GB of 8.0 GB, cgroup /job (memory.max)'


class _Group(NamedTuple):
    limit: Limit
    stat: str
    keys: tuple[bytes, bytes]


class _Process(NamedTuple):
    limit: Limit
    status: str
    key: bytes


class Gauge:
    """Measures against every limit that holds for `pid` and its children; the reader's own limits
    do not matter.

    - A cgroup's limit is measured by the anonymous and shared memory of the whole group: processes
      that are not ours use it up as well.
    - Physical memory is used up by everything but MemAvailable. Dirty page cache counts as
      available there, and rightly so: the kernel throttles who writes and drops the pages once
      they are on disk, before it kills anybody. Free swap counts as room, because the kernel uses
      it before it kills.
    - RLIMIT_AS and RLIMIT_DATA are each process's own, measured by what the kernel compares with
      them: the address space (a mapped 11 GB file counts in full) and the private writable part
      of it (a mapped file that is only read does not count).

    `root` stands for / in tests.
    """

    def __init__(self, pid: int, *, root: Path = Path("/")) -> None:
        self.pid = pid
        self._root = root
        self._groups: tuple[_Group, ...] = ()
        self._processes: tuple[_Process, ...] = ()
        self._look_again_at = 0.0

    def read(self) -> Reading:
        """Returns the limit with the largest share.

        Raises ProcessLookupError if the process is gone, at the latest when limits are looked up
        again.
        """
        return max(self.readings(), key=lambda reading: reading.share)

    def readings(self) -> list[Reading]:
        """Returns all limits. Raises as `read` does."""
        now = time.monotonic()
        if now >= self._look_again_at:
            self._groups = tuple(self._limited_groups())
            self._processes = tuple(self._limited_processes())
            self._look_again_at = now + LOOK_AGAIN_S
        return [self._physical(), *self._of_groups(), *self._of_processes()]

    def _physical(self) -> Reading:
        path = self._root / "proc/meminfo"
        if platform.LINUX and not path.exists():
            return Reading(0.0, 0, physical_bytes(), "physical memory", "unknown")
        if not platform.LINUX and not path.exists():
            import psutil  # type: ignore[import-untyped, unused-ignore]

            memory = psutil.virtual_memory()
            return _reading(memory.total - memory.available, memory.total, "physical memory")
        text = b"\n" + _read(str(path))
        total, available, swap = (
            _number(text, key) << 10 for key in (b"\nMemTotal:", b"\nMemAvailable:", b"\nSwapFree:")
        )
        name = "physical memory and free swap" if swap else "physical memory"
        return _reading(total - available, total + swap, name)

    def _of_groups(self) -> Iterator[Reading]:
        for limit, path, keys in self._groups:
            try:
                text = b"\n" + _read(path)
            except OSError:  # the group went with its last process (ENOENT, ENODEV)
                continue
            held = sum(_number(text, key) for key in keys)
            yield _reading(held, limit.bytes, limit.source)

    def _of_processes(self) -> Iterator[Reading]:
        for limit, path, key in self._processes:
            try:
                text = _read(path)
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield _reading(_number(text, key) << 10, limit.bytes, limit.source)

    def _limited_groups(self) -> Iterator[_Group]:
        most = self._physical().limit
        for folder, limit in group_limits(self._root, self.pid):
            if 0 < limit.bytes <= most:
                file = limit.source.rpartition("(")[2].rstrip(")")
                yield _Group(limit, str(folder / "memory.stat"), _STAT_KEYS[file])

    def _limited_processes(self) -> Iterator[_Process]:
        if not platform.LINUX:
            return
        from ttf.machine.memory._linux import descendants

        for pid in descendants(self.pid):
            try:
                limits = list(rlimits(pid))
            except PermissionError:  # another user's
                continue
            except ProcessLookupError:
                if pid == self.pid:
                    raise ProcessLookupError(f"There is no process {pid}.") from None
                continue
            for limit in limits:
                named = Limit(limit.bytes, f"{limit.source} of process {pid}")
                status = str(self._root / f"proc/{pid}/status")
                yield _Process(named, status, _STATUS_KEYS[limit.source])


def _reading(held: int, limit: int, source: str) -> Reading:
    text = f"{size(held)} of {size(limit)}, {source}"
    return Reading(held / limit if limit else 1.0, held, limit, source, text)


def _number(text: bytes, key: bytes) -> int:
    """Returns the number after a key; 0 without the key (no swap, old kernel)."""
    start = text.find(key)
    if start < 0:
        return 0
    return int(text[start + len(key) : start + len(key) + 32].split(None, 1)[0])


def _read(path: str) -> bytes:
    with FileIO(path) as file:
        return file.readall()
