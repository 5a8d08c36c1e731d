"""Whether a process tree does anything visible from outside, and for how long it did not."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttf.process import platform
from ttf.process.lifeline import is_stopped

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_COMPUTING: Final = 0.5
_IDLE: Final = 0.02


class Activity:
    """Signs of life: a byte on standard error, a byte read or written by any process of the tree
    (/proc/PID/io, which also counts I/O that does not reach a disk), a process that begins or ends.
    Reading mapped files and computing are no signs."""

    def __init__(self) -> None:
        self.seen_at = time.monotonic()
        self.blind = False  # The I/O of the command cannot be read: only standard error counts.
        self._before: object = None
        self._ticks = 0

    def look(self, pids: Sequence[int], stderr_bytes: int) -> None:
        """Called about once a second."""
        now = (stderr_bytes, tuple(pids), tuple(_moved(pid) for pid in pids))
        self.blind = _moved(pids[0]) is None
        if now != self._before:
            self._before = now
            self.alive(pids)

    def alive(self, pids: Sequence[int]) -> None:
        self.seen_at = time.monotonic()
        self._ticks = _ticks(pids)

    def pause(self, seconds: float) -> None:
        # The time while we were stopped or asleep does not count.
        self.seen_at += seconds

    @property
    def quiet_s(self) -> float:
        return time.monotonic() - self.seen_at

    def meanwhile(self, pids: Sequence[int]) -> str:
        """What it did since the last sign of life, for a sentence."""
        if not pids:
            return "its process had ended"
        if all(is_stopped(pid) for pid in pids):
            return "it was paused during this time by a SIGSTOP signal"
        if not platform.LINUX:
            return "its CPU use is unknown"
        share = (_ticks(pids) - self._ticks) / _TICKS / max(0.1, self.quiet_s)
        if share < _IDLE:
            return "it used almost no CPU during this time: it was waiting"
        text = f"it used {share:.0%} of one CPU during this time"
        return f"{text}: it was computing" if share > _COMPUTING else text


def _moved(pid: int) -> int | None:
    """Bytes that a process has read and written so far; None if unknown."""
    try:
        text = Path(f"/proc/{pid}/io").read_bytes()
    except OSError:
        return None
    words = text.split()
    return int(words[1]) + int(words[3])  # rchar: N wchar: N


def _ticks(pids: Sequence[int]) -> int:
    return sum(_ticks_of(pid) for pid in pids)


def _ticks_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[11]) + int(fields[12])
