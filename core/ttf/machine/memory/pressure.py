"""How much time is lost waiting for memory: pressure-stall information (PSI) of Linux.

A stall tells of memory that is short before it is used up: some task waits for a page that the kernel
first has to free or read again. Of the control group where that has the file (version 2), else of the
machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from ttf.machine.memory.limits import group_folders, group_words

_MACHINE: Final = "proc/pressure/memory"
_NOT_IN_THE_TOP: Final = "cgroup.events"
_GROUP: Final = "memory.pressure"
_LEAST_S: Final = 0.5  # between two readings that are compared


class StallMeter:
    """`root` stands for / in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._file: Path | None = None
        total = None
        for file in _files(root):
            total = _total_us(file)
            if total is not None:
                self._file = file
                break
        self._last = (time.monotonic(), total or 0)
        self._share: float | None = None if self._file is None else 0.0

    @property
    def source(self) -> str:
        """'' if this system does not tell."""
        return "" if self._file is None else f"/{self._file.relative_to(self._root)}"

    @property
    def of_machine(self) -> bool:
        """Whether stalls of programs that are not ours are among them: also those of the top control
        group, which is the machine unless it is that of a container."""
        if self._file is None or self.source == f"/{_MACHINE}":
            return True
        return not (self._file.parent / _NOT_IN_THE_TOP).exists()

    def read(self, now: float | None = None) -> float | None:
        """The share of the time since the last reading in which some task waited for memory; None
        if unknown."""
        now = time.monotonic() if now is None else now
        before, total_before = self._last
        if self._file is None or now - before < _LEAST_S:
            return self._share
        total = _total_us(self._file)
        if total is None:  # its group is gone
            self._file, self._share = None, None
            return None
        self._last = now, total
        self._share = min(1.0, max(0, total - total_before) / 1e6 / (now - before))
        return self._share


def _files(root: Path) -> list[Path]:
    groups = [folder / _GROUP for folder in group_folders("memory", root)]
    return [*(file for file in groups if file.exists()), root / _MACHINE]


def _total_us(file: Path) -> int | None:
    """Of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=2070921`."""
    try:
        words = group_words(file)
    except OSError:  # built in, and switched off (EOPNOTSUPP)
        return None
    if "some" not in words:
        return None
    found = dict(word.split("=", 1) for word in words[words.index("some") + 1 :][:4])
    return int(found["total"])
