"""Core files of Linux: allowed for a child process, found after its death, read as far as needed.

The kernel writes one to the folder that the process works in, or where
/proc/sys/kernel/core_pattern says, unless that names a program.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import resource
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.errors import EntryRefused
from ttf.rundir.confined import open_inside

_MOST_BYTES: Final = 16 << 30  # of a core file; and half of what is free
_MOST_NOTES: Final = 16 << 20
_MOST_FOLDERS: Final = 64
_MOST_FILES: Final = 64
_CLOCK_S: Final = 1.0  # clocks of file systems lag behind
# Private memory only: what is shared (data of loaders, arrays in /dev/shm) has no stack in it.
_PRIVATE: Final = "0x31"
_KERNEL: Final = Path("/proc/sys/kernel")
_ELF64_LITTLE: Final = b"\x7fELF\x02\x01"
_TYPE_CORE: Final = 4
_SEGMENT_NOTES: Final = 4
_STATUS, _PROCESS, _VECTOR, _FILES = 1, 3, 6, 0x46494C45
_ENTRY: Final = 9  # in the auxiliary vector: where the program begins


@dataclass(frozen=True, kw_only=True)
class Core:
    path: Path
    pid: int
    signal: int
    program: str  # path of what was executed

    def remove(self) -> None:
        with contextlib.suppress(OSError):  # its folder may be gone, or read-only by now
            self.path.unlink()


class CoreFiles:
    """Those of one child process and of the processes below it."""

    def __init__(self, kernel: Path = _KERNEL, folder: Path | None = None) -> None:
        """Make it before the child starts. In tests, `kernel` replaces /proc/sys/kernel and
        `folder` the current one."""
        pattern = _text(kernel / "core_pattern") or "core"
        self.program = pattern.removeprefix("|") if pattern.startswith("|") else ""
        own = "%p" in pattern or "%P" in pattern
        names = "*".join(map(glob.escape, re.split("%.", pattern)))
        if not own and _text(kernel / "core_uses_pid") not in ("", "0"):
            own, names = True, f"{names}.*"
        self._place, self._names = os.path.split(names)
        self._since = time.time() - _CLOCK_S
        self._seen: set[int] = set()
        here = Path.cwd() if folder is None else folder
        self._folders = {here}
        # The kernel would write over a file of such a name, whatever is in it.
        there = [] if own or self.program else sorted((here / self._place).glob(self._names))
        self.in_the_way = str(there[0]) if there else ""

    def look(self, pids: Iterable[int]) -> None:
        """Call it while they live: remembers where they work."""
        for pid in pids:
            self._seen.add(pid)
            if len(self._folders) < _MOST_FOLDERS:
                with contextlib.suppress(OSError):
                    self._folders.add(Path(f"/proc/{pid}/cwd").readlink())

    def look_in(self, folders: Iterable[Path]) -> None:
        self._folders |= set(folders)

    def of(self, pid: int, signum: int | None) -> Core | None:
        """The core of a process that died. `signum`: if a shell told its death, the process is
        another one, and the newest core of this signal counts."""
        cores = list(self._fresh())
        own = [core for core in cores if core.pid == pid]
        told = [core for core in cores if core.signal == signum]
        return next(reversed(own or told), None)

    def remove(self) -> None:
        """Removes those of all processes that were seen."""
        for core in self._fresh():
            if core.pid in self._seen:
                core.remove()

    def _fresh(self) -> Iterator[Core]:
        """Oldest first."""
        found = {path for folder in self._folders for path in self._files_in(folder)}
        for path in sorted(found, key=_modified)[-_MOST_FILES:]:
            core = read_core(path)
            if core is not None:
                yield core

    def _files_in(self, folder: Path) -> Iterator[Path]:
        # An absolute pattern wins over the folder.
        for path in sorted((folder / self._place).glob(self._names)):
            with contextlib.suppress(OSError):
                found = path.lstat()
                ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
                if ours and found.st_mtime >= self._since:
                    yield path


@contextlib.contextmanager
def cores_allowed() -> Iterator[None]:
    """Processes started inside leave a core file when they crash, and so do those that they start."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    chosen = _text(Path("/proc/self/coredump_filter"))
    allow_core(os.getpid())
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
        if chosen:
            _write_filter(os.getpid(), f"0x{chosen}")


def allow_core(pid: int) -> None:
    """From now on this process and those that it starts leave a core file when they crash."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
    space = os.statvfs(".")
    most = min(_MOST_BYTES, space.f_bavail * space.f_frsize // 2)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.prlimit(pid, resource.RLIMIT_CORE, (most, hard))
    _write_filter(pid, _PRIVATE)


def _write_filter(pid: int, text: str) -> None:
    with contextlib.suppress(OSError):  # a kernel without it
        Path(f"/proc/{pid}/coredump_filter").write_text(text)


def read_core(path: Path) -> Core | None:
    """None if it is no core file of a 64-bit processor."""
    try:
        with open_inside(path, path.parent) as file:
            head = file.read(64)
            if head[:6] != _ELF64_LITTLE or struct.unpack_from("<H", head, 16)[0] != _TYPE_CORE:
                return None
            (at,) = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(at)
            table = file.read(size * count)
            for start in range(0, len(table), size):
                (kind,) = struct.unpack_from("<I", table, start)
                if kind == _SEGMENT_NOTES:
                    (offset,) = struct.unpack_from("<Q", table, start + 8)
                    (length,) = struct.unpack_from("<Q", table, start + 32)
                    file.seek(offset)
                    return _from_notes(path, file.read(min(length, _MOST_NOTES)))
    except (OSError, EntryRefused, struct.error, ValueError):  # torn: the disk was full
        return None
    return None


def _from_notes(path: Path, notes: bytes) -> Core:
    first: dict[int, bytes] = {}
    at = 0
    while at + 12 <= len(notes):
        name, length, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + _padded(name)
        first.setdefault(kind, notes[begin : begin + length])
        at = begin + _padded(length)
    return Core(
        path=path,
        pid=struct.unpack_from("<I", first.get(_PROCESS, b""), 24)[0],
        signal=struct.unpack_from("<H", first.get(_STATUS, b""), 12)[0],
        program=_program(first.get(_VECTOR, b""), first.get(_FILES, b"")),
    )


def _program(vector: bytes, files: bytes) -> str:
    """The file that is mapped where the program began."""
    pairs = struct.iter_unpack("<QQ", vector[: len(vector) // 16 * 16])
    entry = next((value for key, value in pairs if key == _ENTRY), 0)
    (count,) = struct.unpack_from("<Q", files)
    names = files[16 + 24 * count :].split(b"\0")
    for number in range(count):
        begin, end, _ = struct.unpack_from("<QQQ", files, 16 + 24 * number)
        if begin <= entry < end:
            return os.fsdecode(names[number])
    return ""


def _padded(length: int) -> int:
    return (length + 3) // 4 * 4


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""
