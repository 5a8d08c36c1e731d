"""Where a step's time goes, by name, for two clock reads a lap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class Stopwatch:
    """Laps since the last `take` or `restart`, added up by name."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._begin = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Books the time since the last lap under `name`."""
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def timed(self, name: str, items: Iterator[T]) -> Iterator[T]:
        """Books the waiting for each item under `name`, what lies between under "compute"."""
        for item in items:
            self.lap(name)
            yield item
            self.lap("compute")

    def take(self) -> tuple[float, dict[str, float]]:
        """(seconds in all, seconds by name as `<name>_s`), and starts anew."""
        total = self._last - self._begin
        laps = {f"{name}_s": seconds for name, seconds in self._laps.items()}
        self.restart()
        return total, laps
