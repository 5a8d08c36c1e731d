"""Watches the memory of a process tree: a curve on disk, and the peak."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ttf.memory._types import TreeMemory
from ttf.memory.limits import limit_in_force

LINE_EVERY_S = 1.0


class MemorySampler:
    """Looks at the tree every `interval_s`, appends a line to `path` at most once a second.

    Starts at once, in a daemon thread; `stop` ends it with a last look and a last line. A line:
    {"time": unix seconds, "step", "anon", "shared", "file", "processes", "peak", "limit"}, bytes.
    A disk that takes no more lines does not end the run: see `failure`.
    """

    def __init__(
        self,
        pid: int,
        path: Path,
        interval_s: float = 0.25,
        *,
        step: Callable[[], int] | None = None,
    ) -> None:
        from ttf.memory import tree_reader

        self.path = path
        self.peak_bytes = 0
        """Most anonymous and shared memory seen at once; at every sample, not only at lines."""
        self.failure: OSError | None = None
        """Why lines stopped being written; sampling goes on."""
        self.limit = limit_in_force()
        self._read = tree_reader(pid)
        self._step = step
        self._interval_s = interval_s
        self._last: TreeMemory | None = None
        self._next_line = 0.0
        self._busy = threading.Lock()
        self._stopping = threading.Event()
        self.sample()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)
        self._thread.start()

    @property
    def held_bytes(self) -> int:
        """Anonymous and shared memory at the last sample; costs nothing."""
        return self._last.held if self._last is not None else 0

    def sample(self) -> TreeMemory:
        """Looks now, from any thread: at a moment that is known to be the highest.

        Raises ProcessLookupError once the process is gone.
        """
        with self._busy:
            self._last = memory = self._read()
            self.peak_bytes = max(self.peak_bytes, memory.held)
            if time.monotonic() >= self._next_line:
                self._write(memory)
            return memory

    def stop(self) -> None:
        """Ends the thread; a second call does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        self._next_line = 0.0
        try:
            self.sample()
        except ProcessLookupError:
            return

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.sample()
            except ProcessLookupError:
                return

    def _write(self, memory: TreeMemory) -> None:
        self._next_line = time.monotonic() + LINE_EVERY_S
        if self.failure is not None:
            return
        line = {
            "time": round(time.time(), 3),
            "step": self._step() if self._step is not None else 0,
            **memory._asdict(),
            "peak": self.peak_bytes,
            "limit": self.limit.bytes,
        }
        try:
            with self.path.open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            self.failure = error
