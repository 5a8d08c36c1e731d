"""Where the processes of a command write: files, and the files of those that read their pipes.

`python train.py 2>&1 | tee log` writes to a pipe; what it said last is in the file that tee has open.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_TAIL_BYTES: Final = 64 << 10
_MOST_HOPS: Final = 4  # of pipes, one behind the other
_NO_LOGS: Final = ("/dev/", "/proc/", "/sys/")
_APPENDED: Final = os.O_APPEND


class LogFile(NamedTuple):
    path: str
    device: int
    inode: int
    begins: int  # what stands before is of earlier commands

    def tail(self) -> bytes:
        """The end of it, b'' if it is gone or another file has its name."""
        with suppress(OSError), open(self.path, "rb", opener=_at_once) as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) == (
                self.device,
                self.inode,
            ):
                # It may have been emptied since.
                begins = self.begins if self.begins <= found.st_size else 0
                file.seek(max(begins, found.st_size - _TAIL_BYTES))
                return file.read(_TAIL_BYTES)
        return b""

    def written_at(self) -> float:
        with suppress(OSError):
            return Path(self.path).stat().st_mtime
        return 0.0


class PipeReaders:
    """Which files are behind a pipe. Learned while its readers live."""

    def __init__(self) -> None:
        self._readers: dict[int, set[int]] = defaultdict(set)  # by pipe: processes
        self._writes_to: dict[int, set[int]] = defaultdict(set)  # by process: pipes
        self._files: dict[int, dict[tuple[int, int], LogFile]] = defaultdict(dict)  # by process
        self._ours = {(s.st_dev, s.st_ino): s.st_size for s in map(os.fstat, (1, 2))}

    def look(self, pids: Iterable[int], *, strangers: bool = False) -> None:
        """About 20 us for each open file of these processes. `strangers`: not started by the command;
        what is in their files by now may be about other commands."""
        for pid in pids:
            with suppress(OSError):  # gone, or somebody else's
                for link in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(OSError):  # closed meanwhile
                        self._look_at(pid, link, strangers)

    def _look_at(self, pid: int, link: Path, stranger: bool) -> None:
        writes = bool(link.lstat().st_mode & stat.S_IWUSR)
        path = str(link.readlink())
        if path.startswith("pipe:["):
            inode = int(path[6:-1])
            if writes:
                self._writes_to[pid].add(inode)
            else:
                self._readers[inode].add(pid)
        elif writes and path.startswith("/") and not path.startswith(_NO_LOGS):
            found = link.stat()
            identity = (found.st_dev, found.st_ino)
            if stat.S_ISREG(found.st_mode) and identity not in self._files[pid]:
                begins = found.st_size if stranger or _appends(pid, link.name) else 0
                self._files[pid][identity] = self.from_us(LogFile(path, *identity, begins))

    def from_us(self, log: LogFile) -> LogFile:
        """Without what was in it before the command, if it is our own standard output."""
        ours = self._ours.get((log.device, log.inode), 0)
        return log._replace(begins=max(log.begins, ours))

    def logs(self, pipe: int) -> list[LogFile]:
        """The files behind this pipe, the nearest first; last what the command has from us."""
        found = dict.fromkeys(self._behind(pipe, 0))
        return sorted(found, key=lambda log: (log.device, log.inode) in self._ours)

    def _behind(self, pipe: int, hops: int) -> Iterator[LogFile]:
        readers = list(self._readers.get(pipe, ()))
        # The processes that started a pipeline still hold its reading end for a moment.
        for pid in readers:
            if pipe not in self._writes_to.get(pid, ()):
                yield from self._files.get(pid, {}).values()
        if hops < _MOST_HOPS:
            for pid in readers:
                for further in self._writes_to.get(pid, set()) - {pipe}:
                    yield from self._behind(further, hops + 1)


def named_log(path: Path) -> LogFile | None:
    """A file that the user names, as it is now; None until it exists."""
    with suppress(OSError):
        found = path.stat()
        return LogFile(str(path.absolute()), found.st_dev, found.st_ino, found.st_size)
    return None


def all_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _at_once(path: str, flags: int) -> int:
    # A FIFO that has the name of a log by now would wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def _appends(pid: int, fd: str) -> bool:
    text = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
    flags = next((line.split()[1] for line in text.splitlines() if line[:6] == "flags:"), "0")
    return bool(int(flags, 8) & _APPENDED)
