"""Evidence of Linux: the kernel log, and the files mapped into a living process."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

KMSG: Final = Path("/dev/kmsg")
# Inode of the PID namespace whose numbers the kernel log uses. Containers have other namespaces.
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC
_OPENMP: Final = re.compile(r"/lib(?:gomp|omp|iomp5)\b[^/]*\.so")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
# Mapped files that are part of programs, not data.
_NO_DATA: Final = re.compile(
    r"^/(?:usr/(?!local/)|lib(?:32|64|x32)?/|s?bin/|etc/|snap/|proc/|sys/|dev/(?!shm/)|memfd:|SYSV)"
    r"|\.(?:so|pyc?|pyd|mo|cache|ttf|otf)(?:\.[\d.]+)?$"
)
_RECENT_S: Final = 10.0
_MOST_RECORDS: Final = 1000


class Mapped(NamedTuple):
    openmp: tuple[str, ...] = ()
    data: frozenset[str] = frozenset()  # files that are no part of a program
    written: frozenset[str] = frozenset()  # those of `data` that the process writes through the map


_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_CPU_LIMIT: Final = re.compile(r"^Max cpu time +(\S+) +(\S+)", re.MULTILINE)


def processor_time(pid: int) -> tuple[float, float, float] | None:
    """Returns (used, soft limit, hard limit) in seconds, also of a zombie; None without a limit."""
    try:
        limits = _CPU_LIMIT.search(Path(f"/proc/{pid}/limits").read_text())
        if limits is None or limits[1] == limits[2] == "unlimited":
            return None
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except _GONE:
        return None
    soft, hard = (math.inf if text == "unlimited" else float(text) for text in limits.groups())
    return (int(fields[11]) + int(fields[12])) / _TICKS, soft, hard


class KernelLog:
    """New lines of the kernel log; none if the log may not be read."""

    def __init__(self, path: Path = KMSG) -> None:
        self._fd = -1
        self._kept: deque[tuple[float, str]] = deque(maxlen=_MOST_RECORDS)
        if _sees_all_processes():
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:  # not root, or no such file in a container: it is never required
                self.close()

    def look(self) -> None:
        """Drops old lines: without this, an old kill could explain the death of another process."""
        now = time.monotonic()
        self._kept.extend((now, record) for record in self._records())
        while self._kept and self._kept[0][0] < now - _RECENT_S:
            self._kept.popleft()

    def lines_about(self, ids: Collection[int]) -> str:
        """Returns the lines that name one of these processes or threads. Each line is returned
        once."""
        if not ids:
            return ""
        any_id = "|".join(map(str, ids))
        names_it = re.compile(rf"(?:process |pid=|\w\[)(?:{any_id})\b")
        self._kept.extend((0.0, record) for record in self._records())
        lines = [line for _, line in self._kept if names_it.search(line)]
        self._kept.clear()
        return "\n".join(lines)

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


def mapped(pid: int) -> Mapped:
    """Returns what a living process has mapped; nothing if its maps cannot be read."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except _GONE:
        return Mapped()
    lines = [line.split(maxsplit=5) for line in text.splitlines() if "/" in line]
    files = [(words[1], words[5].strip()) for words in lines if len(words) == 6]
    program = {path for rights, path in files if "x" in rights}
    data = {path for _, path in files if path not in program and _is_data(path)}
    return Mapped(
        openmp=tuple(dict.fromkeys(path for _, path in files if _OPENMP.search(path))),
        data=frozenset(data),
        written=frozenset(path for rights, path in files if path in data and rights[1::2] == "ws"),
    )


def _is_data(path: str) -> bool:
    return not path.endswith(" (deleted)") and _NO_DATA.search(path) is None


def openmp_runtimes(pid: int) -> tuple[str, ...]:
    return mapped(pid).openmp


def folders_written(pid: int) -> set[str]:
    """Returns the folders of the files that a process has open for writing."""
    found = set()
    with suppress(*_GONE), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):  # closed meanwhile
                if entry.stat(follow_symlinks=False).st_mode & stat.S_IWUSR:
                    target = Path(entry.path).readlink()
                    if target.is_absolute() and target.parts[1] not in ("dev", "proc"):
                        found.add(str(target.parent))
    return found


def thread_ids(pid: int) -> set[int]:
    # The kernel log names the thread that crashed, not its process.
    try:
        return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    except _GONE:
        return set()
