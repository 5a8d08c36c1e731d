"""How much of the processors other processes used while this process measured something."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)  # idle, and waiting for a disk
_COUNTED: Final = 8  # user to steal; the guests after them are part of user


class OthersLoad:
    """Begins when it is made. Of the whole machine, also where this process is in a container: the
    others there use the same processors."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._busy_s, self._own_s = _busy_s(stat), time.process_time()
        self._began = time.perf_counter()

    def share(self) -> float | None:
        """Of all processors, from 0 to 1; None if the system does not tell."""
        busy_s, seconds = _busy_s(self._stat), time.perf_counter() - self._began
        if busy_s is None or self._busy_s is None or not seconds:
            return None
        others_s = busy_s - self._busy_s - (time.process_time() - self._own_s)
        return min(1.0, max(0.0, others_s / (seconds * (os.cpu_count() or 1))))


def _busy_s(stat: Path) -> float | None:
    try:
        words = stat.read_text().splitlines()[0].split()
    except (OSError, IndexError):  # no /proc: macOS, some sandboxes
        return None
    if words[0] != "cpu" or len(words) <= max(_IDLE) + 1:
        return None
    counts = [int(word) for word in words[1 : 1 + _COUNTED]]
    ticks = sum(count for place, count in enumerate(counts) if place not in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")
