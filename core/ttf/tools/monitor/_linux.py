"""Processes from /proc: about 60 us each."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

from ttf.machine.memory._linux import GONE, descendants, status
from ttf.tools.monitor.processes import Raw

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STATES: Final = {
    "R": "running",
    "S": "sleeping",
    "D": "disk wait",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}


class Linux:
    def read(self, pid: int) -> list[Raw]:
        if self.started(pid) is None:
            return []
        return [raw for each in descendants(pid) if (raw := _one(each)) is not None]

    def started(self, pid: int) -> float | None:
        fields = _stat(pid)[1]
        if not fields or fields[0] in ("Z", "X"):
            return None
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + int(fields[19]) / _TICKS

    def owner(self, pid: int) -> str | None:
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return None
        uid = int(text.partition("\nUid:")[2].split()[1])
        if uid == os.geteuid() or os.geteuid() == 0:
            return None
        import pwd

        with contextlib.suppress(KeyError):  # a number without a name, as in containers
            return pwd.getpwuid(uid).pw_name
        return f"user {uid}"

    def open_files(self, pid: int) -> list[str]:
        found = []
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found.append(str(Path(entry.path).readlink()))
        return found


def _one(pid: int) -> Raw | None:
    name, fields = _stat(pid)
    if not fields:
        return None
    memory = status(pid) or (0, 0, 0)  # a zombie has none left
    return Raw(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        started=float(fields[19]),
        words=_words(pid) or (name,),
        state=_STATES.get(fields[0], fields[0]),
        threads=int(fields[17]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        anon=memory[0],
        shared=memory[1],
        file=memory[2],
    )


def _stat(pid: int) -> tuple[str, list[str]]:
    """Its short name and what follows it in /proc/<pid>/stat: state, parent, group, session, ..."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except (*GONE, PermissionError):
        return "", []
    begin, end = text.index("("), text.rindex(")")
    return text[begin + 1 : end], text[end + 2 :].split()


def _words(pid: int) -> tuple[str, ...]:
    try:
        text = _read(f"/proc/{pid}/cmdline").rstrip("\0")
    except (*GONE, PermissionError):
        return ()
    return tuple(text.split("\0")) if text else ()


def _read(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - several times as fast as pathlib
        return file.read().decode(errors="replace")
