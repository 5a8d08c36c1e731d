"""How processes ended that are not our children: the kernel tells their parents, and whoever asks in
time."""

from __future__ import annotations

import array
import contextlib
import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# ioctl of a pidfd, since Linux 6.15 also after the parent has taken the end:
# https://man7.org/linux/man-pages/man2/PIDFD_GET_INFO.2const.html
_INFO_BYTES: Final = 64
_GET_INFO: Final = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_INFO_EXIT: Final = 1 << 3
_EXIT_CODE_AT: Final = 60
_EXIT_CODE_OF_STAT: Final = -1  # the last field of /proc/PID/stat
_MOST: Final = 512


class Departures:
    """Watches processes of anybody's; `ended` has those whose end was seen.

    On kernels before 6.15 an end is seen only until the parent takes it: often too short.
    """

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}  # by process: the return code as of Popen
        self.seen_at: dict[int, float] = {}  # of the same: the Unix time of the look that saw it
        self._watched: dict[int, int] = {}

    def watch(self, pids: Iterable[int]) -> None:
        """Call it while they live; those that are watched already cost nothing."""
        opener = getattr(os, "pidfd_open", None)
        if opener is None:
            return
        for pid in pids:
            if pid not in self._watched and len(self._watched) < _MOST:
                with contextlib.suppress(OSError):  # gone, or no such call
                    self._watched[pid] = opener(pid)

    def look(self) -> None:
        """Asks how those ended that have."""
        for pid, fd in list(self._watched.items()):
            status = _wait_status(fd, pid)
            if status is None and _is_there(pid):
                continue
            if status is not None:
                self.ended[pid] = os.waitstatus_to_exitcode(status)
                self.seen_at[pid] = time.time()
            os.close(self._watched.pop(pid))

    def close(self) -> None:
        for fd in self._watched.values():
            os.close(fd)
        self._watched.clear()


def _wait_status(fd: int, pid: int) -> int | None:
    """None if the process lives, or nobody tells any more."""
    import fcntl

    asked = array.array("B", bytes(_INFO_BYTES))
    struct.pack_into("Q", asked, 0, _INFO_EXIT)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _GET_INFO, asked)
        if struct.unpack_from("Q", asked, 0)[0] & _INFO_EXIT:
            return int(struct.unpack_from("i", asked, _EXIT_CODE_AT)[0])
    return _status_of_zombie(pid)


def _status_of_zombie(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return int(fields[_EXIT_CODE_OF_STAT]) if fields[0] == "Z" else None


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
