"""The Python processes of a command: where they write, what they said last, how they ended.

`site/sitecustomize.py` leaves notes about each of them in the folder of the stacks: start-PID.txt
(parent, where descriptors 1 and 2 lead), cwd-PID.txt (a link to the folder it works in),
said-PID-FD.txt (the end of what went into a pipe or a terminal), end-PID.txt (how it was shut down)
and, after a crash, stacks-PID.txt.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ttf.incidents.facts import fatal_signal
from ttf.machine.memory.limits import Limit, rlimits
from ttf.process.departures import Departures
from ttf.tools.guard.outputs import LogFile, PipeReaders, all_processes, named_log
from ttf.tools.guard.stacks import Stacks

# Signals of a fault. Others end processes that have done their work: pools end their workers so.
_FAULTS: Final = frozenset(
    int(s)
    for s in (
        *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE),
        *(signal.SIGTRAP, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ),
    )
)
_MOST_SEARCHES: Final = 3  # of all processes, for the reader of our own standard output
_UNCAUGHT: Final = "uncaught "
_KEPT_ENDED: Final = 64
_MOST_FOLDERS: Final = 64


class Target(NamedTuple):
    """Where a descriptor leads."""

    kind: str  # "file", "pipe", "other"
    device: int
    inode: int
    begins: int  # in a file: where this process began to write
    path: str


@dataclass(frozen=True, kw_only=True)
class PythonEnd:
    """A Python process that did not end in order."""

    pid: int
    parent: int
    time: float  # of the clock of files
    signum: int | None = None
    uncaught: str = ""  # class of the exception
    traceback: str = ""
    age_s: float | None = None  # how long it lived; None: its start is unknown
    # Neither forked nor started by another Python, which would know how it ended.
    main: bool = False


class Pythons:
    """Those of one start of the command; made before it starts."""

    relayed: tuple[int, int] = 0, 0
    """Device and inode of the command's standard error, which the guard reads."""

    def __init__(self, stacks: Stacks, log: Path | None) -> None:
        self._stacks = stacks
        self._log = None if log is None else named_log(log)
        self._log_path = log
        self._departures = Departures()
        self._readers = PipeReaders()
        self._searches = 0
        self._limits: dict[int, Limit | None] = {}
        with contextlib.suppress(FileExistsError):
            os.mkfifo(stacks.folder / "started")
        # For writing too: else it would be at its end whenever no process has it open.
        self.wake = os.open(stacks.folder / "started", os.O_RDWR | os.O_NONBLOCK)

    def woken(self) -> bool:
        """Whether a Python has started since the last call."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self.wake, 1 << 16))
        return False

    def look(self, pids: Iterable[int]) -> None:
        """`pids`: the living processes of the command. Cheap once every pipe has a known file."""
        pids = list(pids)
        known = self._known()
        self._look_at_limits(pid for pid in pids if pid in known)
        self._departures.watch(pid for pid in pids if pid in known)
        self._departures.look()
        wanted = {t.inode for pid in pids for t in self._pipes(pid) if not self._logs(t)}
        if not wanted:
            return
        self._readers.look(pids)
        if self._searches < _MOST_SEARCHES and wanted & _own_pipes():
            self._searches += 1
            mine = {os.getpid(), *pids}
            others = [pid for pid in all_processes() if pid not in mine]
            self._readers.look(others, strangers=True)

    def _look_at_limits(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._limits[pid] = min(rlimits(pid), default=None)

    def limit_of(self, pid: int) -> Limit | None:
        """Its own, as last seen while it lived: a script may lower it at any time."""
        return self._limits.get(pid)

    def tidy(self, alive: Iterable[int]) -> None:
        """Forgets most of those that ended in order: a build may start thousands."""
        living = set(alive)
        ended = [pid for pid in self._known() if pid not in living]
        in_order = [pid for pid in ended if self._stacks.ended(pid) == "in order"]
        for pid in in_order[:-_KEPT_ENDED]:
            self._limits.pop(pid, None)
            for path in self._stacks.folder.glob(f"*-{pid}[-.]*"):
                path.unlink(missing_ok=True)

    def folders(self) -> list[Path]:
        """Where they worked when they started."""
        found = []
        for link in self._stacks.folder.glob("cwd-*.txt"):
            with contextlib.suppress(OSError):
                found.append(link.readlink())
        return found[:_MOST_FOLDERS]

    # --- how they ended ---------------------------------------------------------------------------

    def ends(self) -> list[PythonEnd]:
        """Those that crashed, were killed or ended with an exception, in this order of time."""
        self._departures.look()
        known = self._known()
        found = [end for pid in {*known, *self._stacks.all()} if (end := self._end(pid, known))]
        return sorted(found, key=lambda end: end.time)

    def _end(self, pid: int, known: dict[int, int]) -> PythonEnd | None:
        signum = fatal_signal(self._stacks.of(pid))
        parent = known.get(pid, 0)
        note, ended_at = "stacks", self._time("stacks", pid)
        if signum is None:
            seen = -self._departures.ended.get(pid, 0)
            # Who kills a process of its own knows it; a shell only says so.
            if seen in _FAULTS or (seen == signal.SIGKILL and parent not in known):
                signum, note, ended_at = seen, "start", self._departures.seen_at[pid]
        if signum is not None:
            time = max(self._time(note, pid), self._said_at(pid))
            age_s = self._age_s(pid, ended_at)
            return PythonEnd(pid=pid, parent=parent, time=time, signum=signum, age_s=age_s)
        how, _, traceback = self._text("end", pid).partition("\n")
        if not how.startswith(_UNCAUGHT):
            return None
        time = self._time("end", pid)
        return PythonEnd(
            pid=pid,
            parent=parent,
            time=time,
            uncaught=how.removeprefix(_UNCAUGHT),
            traceback=traceback,
            age_s=self._age_s(pid, time),
            main=pid in known and parent not in known,
        )

    def _age_s(self, pid: int, ended_at: float) -> float | None:
        # A forked process has no note of its start.
        began = self._time("start", pid)
        return max(0.0, ended_at - began) if began else None

    # --- what they said ---------------------------------------------------------------------------

    def words(self, pid: int, relayed: bytes) -> tuple[bytes, bytes]:
        """(standard error, standard output) of a process, the ends of them.

        `relayed` is what the guard has read. If both went to the same place, the second is empty.
        """
        targets = self._targets(pid)
        out, err = targets.get(1), targets.get(2)
        at_err = self._to(pid, 2, err)
        if err is None or (err.device, err.inode) == self.relayed:
            at_err = relayed
        elif not at_err:
            at_err = self._named()
        if out is not None and err is not None and out[1:3] == err[1:3]:
            return at_err or self._to(pid, 1, out), b""
        return at_err, self._to(pid, 1, out) or self._named()

    def _to(self, pid: int, fd: int, target: Target | None) -> bytes:
        said = self._bytes(f"said-{pid}-{fd}.txt")
        if target is None:
            return said
        for log in self._logs(target):
            text = log.tail()
            # A file that has not its last line is the file of something else.
            if text and _last_line(said) in text:
                return text
        return said

    def last_speaker(self) -> int | None:
        """The one that wrote last; None if there is no Python."""
        known = self._known()
        return max(known, key=lambda pid: (self._said_at(pid), pid), default=None)

    def _said_at(self, pid: int) -> float:
        times = [self._time(f"said-{pid}-1"), self._time(f"said-{pid}-2")]
        for target in self._targets(pid).values():
            times += [log.written_at() for log in self._logs(target)]
        return max(times)

    def _named(self) -> bytes:
        log = self._log or (None if self._log_path is None else named_log(self._log_path))
        if log is None:
            return b""
        return (log if log is self._log else log._replace(begins=0)).tail()

    def _logs(self, target: Target) -> list[LogFile]:
        if target.kind == "file":
            log = LogFile(target.path, target.device, target.inode, target.begins)
            return [self._readers.from_us(log)]
        return self._readers.logs(target.inode) if target.kind == "pipe" else []

    # --- the notes --------------------------------------------------------------------------------

    def _known(self) -> dict[int, int]:
        """Process and parent, by start."""
        found = {}
        for entry in sorted(os.scandir(self._stacks.folder), key=_modified):
            digits = entry.name.removeprefix("start-").removesuffix(".txt")
            if entry.name.startswith("start-") and digits.isdecimal():
                first = self._text("start", int(digits)).partition("\n")[0]
                found[int(digits)] = int(first) if first.isdecimal() else 0
        return found

    def _pipes(self, pid: int) -> Iterator[Target]:
        for target in self._targets(pid).values():
            if target.kind == "pipe" and (target.device, target.inode) != self.relayed:
                yield target

    def _targets(self, pid: int) -> dict[int, Target]:
        found = {}
        for line in self._text("start", pid).splitlines()[1:]:
            fd, kind, device, inode, begins, path = line.split("\t", 5)
            found[int(fd)] = Target(kind, int(device), int(inode), int(begins), path)
        return found

    def _text(self, note: str, pid: int) -> str:
        return self._bytes(f"{note}-{pid}.txt").decode(errors="replace")

    def _bytes(self, name: str) -> bytes:
        with contextlib.suppress(OSError):
            return (self._stacks.folder / name).read_bytes()
        return b""

    def _time(self, note: str, pid: int | None = None) -> float:
        name = note if pid is None else f"{note}-{pid}"
        with contextlib.suppress(OSError):
            return (self._stacks.folder / f"{name}.txt").stat().st_mtime
        return 0.0

    def close(self) -> None:
        os.close(self.wake)
        self._departures.close()


def _modified(entry: os.DirEntry[str]) -> float:
    with contextlib.suppress(OSError):
        return entry.stat().st_mtime
    return 0.0


def _last_line(said: bytes) -> bytes:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].strip() if lines else b""


def _own_pipes() -> set[int]:
    """Pipes that the command has from us."""
    return {os.fstat(fd).st_ino for fd in (1, 2)}
