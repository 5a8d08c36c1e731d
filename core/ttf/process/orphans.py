"""What the children of this process leave behind: adopted, ended and reaped (Linux).

`child.py` finds the descendants of a child by session and by mark. A daemon that has changed both is
found only by its parent: this process, once it is a subreaper and those between have ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from ttf.process import platform

_PR_SET_CHILD_SUBREAPER: Final = 36
_MOST_S: Final = 10.0
_PAUSE_S: Final = 0.005


class Orphans:
    """The processes that come to this one because their parent ended.

    Elsewhere than on Linux, orphans go to process 1: sessions and marks find what they can.
    """

    def __init__(self) -> None:
        """Adopts from now on:
        https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html"""
        # Not all orphans need to be of our making: a shell that became this process by `exec` left us
        # its background jobs, and to process 1 of a container come those of every `docker exec`.
        self._all_ours = platform.PROC and os.getpid() != 1 and not _has_children()
        if platform.LINUX:
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def reap(self, ours: Collection[int] = ()) -> None:
        """Reaps those that have ended, because nobody else does: in many containers process 1 reaps
        nothing. `ours` are the children whose end is waited for elsewhere; no others may exist."""
        if not platform.LINUX:
            return
        with contextlib.suppress(ChildProcessError):  # there are no children
            while (end := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if end.si_pid in ours:
                    return
                os.waitpid(end.si_pid, 0)

    def end(self) -> None:
        """Kills and reaps all, when the child that may have left them has been reaped.

        Returns sooner than the last has gone if the kernel holds one (for a disk or a device).
        """
        self.reap()
        if not self._all_ours:
            return
        ends_at = time.monotonic() + _MOST_S
        # The children of one that is killed come to this process in turn.
        while _has_children() and time.monotonic() < ends_at:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
            self.reap()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> Iterator[int]:
    own = str(os.getpid()).encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # gone meanwhile
                stat = Path(entry.path, "stat").read_bytes()
                if stat[stat.rindex(b")") + 2 :].split()[1] == own:
                    yield int(entry.name)
