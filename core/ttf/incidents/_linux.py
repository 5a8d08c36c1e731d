"""Evidence that Linux has: the kernel's log, and what is mapped into a living process."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

KMSG: Final = Path("/dev/kmsg")
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the namespace whose numbers the kernel's log uses; in a container they are others."""
_OPENMP: Final = re.compile(r"/lib(?:gomp|omp|iomp5)\b[^/]*\.so")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


class KernelLog:
    """What the kernel says from now on; empty where it may not be read."""

    def __init__(self, path: Path = KMSG) -> None:
        self._fd = -1
        if _sees_all_processes():
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:  # not root, or no such file in a container: it is never required
                self.close()

    def lines_about(self, ids: Collection[int]) -> str:
        """Lines that name one of these processes or threads; each line is given once."""
        if not ids:
            return ""
        any_id = "|".join(map(str, ids))
        names_it = re.compile(rf"(?:process |pid=|\w\[)(?:{any_id})\b")
        return "\n".join(line for line in self._records() if names_it.search(line))

    def _records(self) -> Iterator[str]:
        while self._fd >= 0:
            try:
                record = os.read(self._fd, 1 << 14)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # older lines were overwritten before we read them
                    continue
                return
            # "6,1234,5678,-;the text\n KEY=value"
            yield record.partition(b";")[2].partition(b"\n")[0].decode(errors="replace")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _sees_all_processes() -> bool:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def openmp_runtimes(pid: int) -> tuple[str, ...]:
    """Paths of the OpenMP runtimes mapped into a living process; () where it cannot be looked at."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except _GONE:
        return ()
    paths = (line.split(maxsplit=5)[5] for line in text.splitlines() if _OPENMP.search(line))
    return tuple(dict.fromkeys(path.strip() for path in paths))


def thread_ids(pid: int) -> set[int]:
    """The kernel names the thread that crashed."""
    try:
        return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    except _GONE:
        return set()
