"""Samples the memory of a process tree in a thread, for runs without a supervisor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ttf.machine.memory.tree import Place, TreeMemory
from ttf.machine.memory.watch import MemoryCurve


class MemorySampler:
    """A `MemoryCurve` with its own daemon thread, which samples every `interval_s`.

    Starts at once; `stop` takes a last sample and writes a last line.
    """

    def __init__(
        self,
        pid: int,
        path: Path,
        interval_s: float = 0.25,
        *,
        place: Callable[[], Place] = Place,
    ) -> None:
        self._curve = MemoryCurve(pid, path, place=place)
        self._interval_s = interval_s
        self._busy = threading.Lock()
        self._stopping = threading.Event()
        self.sample()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)
        self._thread.start()

    @property
    def peak_bytes(self) -> int:
        """Highest anonymous plus shared memory of all samples, not only of those written."""
        return self._curve.peak_bytes

    @property
    def failure(self) -> OSError | None:
        """Why the last line could not be written. Sampling continues."""
        return self._curve.failure

    @property
    def held_bytes(self) -> int:
        """Anonymous plus shared memory at the last sample. Does not sample."""
        return self._curve.held_bytes

    def sample(self, *, line: bool = False) -> TreeMemory:
        """Samples now, from any thread, for example at a known peak.

        Raises ProcessLookupError if the process is gone.
        """
        with self._busy:
            return self._curve.look(line=line)

    def stop(self) -> None:
        """May be called twice."""
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
