"""What a child measures of itself: time per thread, anonymous memory at its highest. Linux."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

_EVERY_S: Final = 0.002
_TASKS: Final = Path("/proc/self/task")


class _Sampling:
    """Looks every few milliseconds, in a thread of its own, while the block runs."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
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

    @property
    def thread(self) -> int | None:
        return self._thread.native_id

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()


class ThreadTimes:
    """Processor time of every thread that ran meanwhile, those that have ended included."""

    def __init__(self) -> None:
        self._began: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._sampling = _Sampling(self._look)
        self._process = 0.0

    def __enter__(self) -> Self:
        self._sampling.__enter__()
        self._began = dict(self._last)
        self._process = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._sampling.__exit__()

    def process_s(self) -> float:
        return time.process_time() - self._process

    def seconds(self) -> list[float]:
        """Of each thread but the one that looked, most first."""
        took = (
            (ns - self._began.get(thread, 0)) / 1e9
            for thread, ns in self._last.items()
            if thread != self._sampling.thread
        )
        return sorted(took, reverse=True)

    def _look(self) -> None:
        for folder in _TASKS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                ran = (folder / "schedstat").read_text().split()[0]
                self._last[int(folder.name)] = int(ran)


class PeakMemory:
    """How far anonymous memory rose above what it was."""

    def __init__(self) -> None:
        self._before = self._highest = 0
        self._sampling = _Sampling(self._look)

    def __enter__(self) -> Self:
        self._before = _anonymous()
        self._sampling.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._sampling.__exit__()

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
