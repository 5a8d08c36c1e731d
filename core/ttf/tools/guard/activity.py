"""Whether a process tree does anything visible from outside, and for how long it did not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttf.machine.memory._linux import children
from ttf.process.activity import bytes_moved, ticks
from ttf.process.meanwhile import what_they_did

# Launchers that tell one another every few seconds that they live, while their workers hang.
_WAIT: Final = frozenset(
    {b"torchrun", b"torch.distributed.run", b"torch.distributed.launch", b"accelerate"}
)
_MOST_WORDS: Final = 6  # python -m NAME, or python /path/NAME, and options of Python before


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
        moved = tuple(bytes_moved(pid) for pid in pids if not _only_waits(pid))
        now = (stderr_bytes, tuple(pids), moved)
        self.blind = bytes_moved(pids[0]) is None
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
        return what_they_did(pids, _ticks(pids) - self._ticks, self.quiet_s)


def _only_waits(pid: int) -> bool:
    """Until a launcher has started a process, its own start counts: it may take long to be loaded."""
    return _is_launcher(pid) and bool(children(pid))


def _is_launcher(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:_MOST_WORDS]
    except OSError:
        return False
    return any(word.rpartition(b"/")[2] in _WAIT for word in words)


def _ticks(pids: Sequence[int]) -> int:
    return sum(ticks(pid) or 0 for pid in pids)
