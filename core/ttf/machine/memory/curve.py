"""The memory of a process tree over time: lines on disk, the peak, and the last ten minutes."""

from __future__ import annotations

import errno
import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ttf.machine.memory._types import MemoryPoint, TreeMemory
from ttf.machine.memory.limits import limit_in_force
from ttf.rundir.documents import MemoryLine

LINE_EVERY_S: Final = 1.0
KEEP_S: Final = 600.0
_MOST_POINTS: Final = 4096


class MemoryCurve:
    """Looks when it is told to; appends a line to `path` at most once a second.

    A disk that takes no lines does not end the run: see `failure`.
    """

    def __init__(self, pid: int, path: Path, *, step: Callable[[], int] | None = None) -> None:
        from ttf.machine.memory import tree_reader

        self.path = path
        self.peak_bytes = 0
        """Most anonymous and shared memory seen at once; at every look, not only at lines."""
        self.failure: OSError | None = None
        """Why the last line could not be written; looking goes on, and so do attempts."""
        self.limit = limit_in_force(pid=pid)
        self._read = tree_reader(pid)
        self._step = step
        self._points: deque[MemoryPoint] = deque(maxlen=_MOST_POINTS)
        self._next_line = 0.0

    @property
    def points(self) -> tuple[MemoryPoint, ...]:
        """The last ten minutes, oldest first."""
        return tuple(self._points)

    @property
    def held_bytes(self) -> int:
        """Anonymous and shared memory at the last look; costs nothing."""
        return self._points[-1].held if self._points else 0

    def look(self, *, line: bool = False) -> TreeMemory:
        """Looks now; `line`: and writes a line in any case, as the last one should be.

        Raises ProcessLookupError once the process is gone.
        """
        memory = self._read()
        point = MemoryPoint(
            time=round(time.time(), 3),
            step=self._step() if self._step is not None else 0,
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
        self._points.append(point)
        while self._points[0].time < point.time - KEEP_S:
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
        }
        try:
            _append(self.path, json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.failure = error
        else:
            self.failure = None


def _append(path: Path, line: bytes) -> None:
    """All of it or nothing, also on a disk that becomes full within it."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        if file.write(line) != len(line):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
