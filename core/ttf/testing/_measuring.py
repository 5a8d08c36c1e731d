"""Measurements of the own process: time per thread, peak anonymous memory. Linux only."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final, Self

_EVERY_S: Final = 0.002
_TASKS: Final = Path("/proc/self/task")


class _Sampled:
    """Calls `_look` every few milliseconds in its own thread while the block runs."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        raise NotImplementedError


class ThreadTimes(_Sampled):
    """Processor time of every thread within the block, also of threads that have ended."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[int, int] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self._began = dict(self._last)
        self._process = time.process_time()
        return self

    def process_s(self) -> float:
        return time.process_time() - self._process

    def seconds(self) -> list[float]:
        """Returns the time of each thread except the measuring one, largest first."""
        took = (
            (ns - self._began.get(thread, 0)) / 1e9
            for thread, ns in self._last.items()
            if thread != self._thread.native_id
        )
        return sorted(took, reverse=True)

    def _look(self) -> None:
        for folder in _TASKS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                ran = (folder / "schedstat").read_text().split()[0]
                self._last[int(folder.name)] = int(ran)


class PeakMemory(_Sampled):
    """How much anonymous memory rose above its value at the start."""

    def __init__(self) -> None:
        super().__init__()
        self._before = _anonymous()
        self._highest = self._before

    @property
    def grown(self) -> int:
        return self._highest - self._before

    def _look(self) -> None:
        self._highest = max(self._highest, _anonymous())


def _anonymous() -> int:
    from ttf.machine.memory import _linux

    use = _linux.status(os.getpid())
    assert use is not None
    return use[0]
