"""Watches the memory of a process tree from a thread, in a run that nobody supervises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ttf.machine.memory.tree import TreeMemory
from ttf.machine.memory.watch import MemoryCurve


class MemorySampler:
    """A `MemoryCurve` that looks by itself every `interval_s`.

    Starts at once, in a daemon thread; `stop` ends it with a last look and a last line.
    """

    def __init__(
        self,
        pid: int,
        path: Path,
        interval_s: float = 0.25,
        *,
        step: Callable[[], int] | None = None,
    ) -> None:
        self._curve = MemoryCurve(pid, path, step=step)
        self._interval_s = interval_s
        self._busy = threading.Lock()
        self._stopping = threading.Event()
        self.sample()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)
        self._thread.start()

    @property
    def peak_bytes(self) -> int:
        """Most anonymous and shared memory seen at once; at every sample, not only at lines."""
        return self._curve.peak_bytes

    @property
    def failure(self) -> OSError | None:
        """Why the last line could not be written; sampling goes on."""
        return self._curve.failure

    @property
    def held_bytes(self) -> int:
        """Anonymous and shared memory at the last sample; costs nothing."""
        return self._curve.held_bytes

    def sample(self, *, line: bool = False) -> TreeMemory:
        """Looks now, from any thread: at a moment that is known to be the highest.

        Raises ProcessLookupError once the process is gone.
        """
        with self._busy:
            return self._curve.look(line=line)

    def stop(self) -> None:
        """Ends the thread; a second call does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        try:
            self.sample(line=True)
        except ProcessLookupError:
            return

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.sample()
            except ProcessLookupError:
                return
