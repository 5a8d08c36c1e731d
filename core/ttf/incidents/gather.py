"""Collects what is known about a dead process into a `Death`.

Make a `Witness` right after the start of the process, call `look` regularly while the process
lives, and `death` after its end. Nothing here guesses.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from ttf.errors import EntryRefused
from ttf.incidents import _linux
from ttf.incidents.code_files import written_since
from ttf.incidents.death import CrashReport, Death, ProcessEnd, ProcessName, ProcessorTime
from ttf.incidents.disks import full_disks
from ttf.incidents.inputs import InputFile, changes
from ttf.machine.memory._linux import descendants
from ttf.machine.memory.limits import ULIMITS, OomWatch
from ttf.process import platform
from ttf.rundir.confined import open_inside
from ttf.text.numbers import size

TAIL_BYTES: Final = 64 << 10  # of stderr
STACKS_BYTES: Final = 256 << 10
_SHELL: Final = 128
_LAST_SIGNAL: Final = 31
# Reading /proc/<pid>/maps took some time: read it again only after this many times as long.
_MAPS_DUTY: Final = 1000
_RECENT_S: Final = 5.0
_MOST_IDS: Final = 20_000
_MOST_INPUTS: Final = 64
_MOST_FOLDERS: Final = 32
_SHM: Final = Path("/dev/shm")
_IN_LIBRARY: Final = re.compile(r"\bin ([^\s\[\]]+)\[[0-9a-f]+[+,]")
_C_FRAME: Final = re.compile(r'Binary file "(?:[^"\n]*/)?([^/"\n]+)", at ')
_NOT_TO_BLAME: Final = re.compile(r"^(?:python|libpython|libc\b|libc\.|libpthread|ld-)")


def _own_limit(end: ProcessEnd) -> str:
    """Of a limit that the system compares with addresses, and not with the memory that is measured."""
    if end.limit_source not in ULIMITS or not end.memory:
        return ""
    limit = end.memory[-1].limit
    return f"{size(limit)} ({end.limit_source}, {ULIMITS[end.limit_source]})" if limit else ""


class Witness:
    """Watches one process, to explain its death later."""

    def __init__(
        self,
        process: ProcessName,
        pid: int,
        *,
        stacks: Path | None = None,
        inputs: Iterable[InputFile] = (),
        tree: bool = False,
        root: Path = Path("/"),
        reports: Iterable[Path] | None = None,
    ) -> None:
        """Must be called right after the start of the process.

        `stacks`: the faulthandler file; what is already in it belongs to earlier processes. `tree`:
        a foreign process and its descendants; its data files are found in its memory maps.
        `reports`: folders of macOS crash reports instead of the usual ones. `root` replaces / in
        tests.
        """
        self.process, self.pid = process, pid
        self._tree = tree
        self.inputs = tuple(inputs)  # may be set later, once the inputs are known
        # Runtimes seen in the process. The caller may set them as well.
        self.openmp: tuple[str, ...] = ()
        self._stacks, self._find_report = stacks, _finder_of_reports(reports)
        self._stacks_from = stacks.stat().st_size if stacks is not None and stacks.exists() else 0
        self._began = time.monotonic()
        self._started = time.time() - 1  # clocks of file systems lag behind
        self._ids = {pid}
        self._written_to: set[str] = set()
        self._maps_again_at = 0.0
        self._processor: dict[int, tuple[float, float, float, float]] = {}
        self._oom = OomWatch(pid, root)
        self._log = _linux.KernelLog() if platform.LINUX else None
        self.look()

    def look(self, tree: Sequence[int] | None = None) -> None:
        """Call about once a second; costs well below a millisecond. `tree`: its descendants, if
        known."""
        self._oom.look()
        if not platform.LINUX:
            return
        pids: Sequence[int] = [self.pid]
        if self._tree:
            pids = descendants(self.pid) if tree is None else tree
        if len(self._ids) > _MOST_IDS:  # of a tree where threads come and go
            self._ids = {self.pid}
        for pid in pids:
            self._ids |= _linux.thread_ids(pid)
            self._look_at_processor_time(pid)
        if self._tree and self._log is not None:
            self._log.look()
        now = time.monotonic()
        if now >= self._maps_again_at:
            began = time.thread_time()  # what it cost, not how long it waited for a processor
            self._look_at_maps(pids)
            self._maps_again_at = now + _MAPS_DUTY * (time.thread_time() - began)

    def look_last(self) -> None:
        """Call right before the process is waited for: a zombie tells its processor time."""
        self._look_at_processor_time(self.pid)

    def _look_at_processor_time(self, pid: int) -> None:
        if platform.LINUX and (found := _linux.processor_time(pid)) is not None:
            self._processor[pid] = (time.monotonic(), *found)

    def _nearest_to_its_limit(self) -> ProcessorTime | None:
        now = time.monotonic()
        found = []
        for seen, used, soft, hard in self._processor.values():
            if now - seen < _RECENT_S:
                at_most = used + (now - seen) * (os.cpu_count() or 1)
                time_ = ProcessorTime(used_s=used, at_most_s=at_most, soft_s=soft, hard_s=hard)
                found.append(time_)
        return max(found, key=lambda time_: time_.at_most_s / time_.soft_s, default=None)

    def _look_at_maps(self, pids: Sequence[int]) -> None:
        if not self._tree:
            self.openmp = tuple(dict.fromkeys([*self.openmp, *_linux.openmp_runtimes(self.pid)]))
            return
        for pid in pids:
            found = _linux.mapped(pid)
            # Runtimes of different processes do not meet: those of the one that has most of them.
            self.openmp = max(self.openmp, found.openmp, key=len)
            self._add_inputs(found)
            if len(self._written_to) < _MOST_FOLDERS:
                self._written_to |= _linux.folders_written(pid)

    def _add_inputs(self, found: _linux.Mapped) -> None:
        known = {str(file.path) for file in self.inputs}
        for path in sorted(found.data - known)[: max(0, _MOST_INPUTS - len(known))]:
            with suppress(OSError):  # gone, or of a mount that we cannot see
                file = InputFile.mapped(path, written=path in found.written)
                self.inputs = (*self.inputs, file)

    def death(self, end: ProcessEnd) -> Death:
        """Must be called right after the process was waited for."""
        killed_by_us, reason = end.killed
        signum, exit_code = ended(end.returncode, finished=end.finished)
        raw = end.stderr[-TAIL_BYTES:]
        stderr = raw.decode(errors="replace")
        dump = self._dump() if end.dump is None else end.dump
        report = self._report(None if killed_by_us else signum)
        kernel = self._log.lines_about(self._ids) if self._log is not None else report.words
        folders = [*end.folders, *map(Path, sorted(self._written_to)), _SHM]
        if signum == signal.SIGBUS:  # a page of a file anywhere, also in a mapping made since
            folders += full_disks()
        count, source = self._oom.rise()
        if report.killed_for_memory:
            count, source = 1, f"{report.path.name} ({report.killed_for_memory})"
        return Death(
            process=self.process,
            pid=self.pid,
            time=time.time(),
            age_s=time.monotonic() - self._began,
            signal=signum,
            exit_code=exit_code,
            killed_by_us=killed_by_us,
            reason=reason,
            stderr=stderr,
            raw_stderr=raw,
            faulthandler=dump,
            flight=end.flight,
            error=end.error,
            finished=end.finished,
            uncaught=end.uncaught,
            processor=self._nearest_to_its_limit(),
            oom_kills=count,
            oom_source=source,
            memory=end.memory,
            limit_source=end.limit_source,
            own_limit=_own_limit(end),
            changed_files=changes(self.inputs),
            free_disk=free_disk(folders),
            no_inodes=without_inodes(folders),
            openmp=self.openmp or report.openmp,
            settings=dict(end.settings),
            newer_code=self._newer_code(end, stderr),
            kernel=kernel,
            native=report.native or native_library(dump or stderr, kernel),
        )

    def _newer_code(self, end: ProcessEnd, stderr: str) -> tuple[str, ...]:
        # Only an exception that ended Python itself: other tracebacks may be of other processes.
        if end.error is not None:
            return written_since(str(end.error.get("traceback", "")), self._started + 1)
        return written_since(stderr, self._started + 1) if end.uncaught else ()

    def _dump(self) -> str:
        if self._stacks is None:
            return ""
        try:
            with open_inside(self._stacks, self._stacks.parent) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._stacks_from, end - STACKS_BYTES))
                return file.read(STACKS_BYTES).decode(errors="replace")
        except (FileNotFoundError, EntryRefused):
            return ""

    def _report(self, signum: int | None) -> CrashReport:
        report = None
        if self._find_report is not None and signum is not None:
            report = self._find_report(self.pid, self._started)
        return report or CrashReport(path=Path(), pid=self.pid)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finder_of_reports(
    folders: Iterable[Path] | None,
) -> Callable[[int, float], CrashReport | None] | None:
    if not platform.MACOS:
        return None
    # Now and not at the death: an upgrade may have replaced the file by then.
    from ttf.incidents import _darwin

    searched = _darwin.FOLDERS if folders is None else tuple(folders)
    return partial(_darwin.find_report, folders=searched) if searched else None


def ended(returncode: int, *, finished: bool = False) -> tuple[int | None, int | None]:
    """(signal, exit code) of a return code as Popen gives it.

    128 + n of a process that left no final record is a shell's way to report signal n: then both
    are given.

    >>> ended(-11), ended(139), ended(1), ended(143, finished=True)
    ((11, None), (11, 139), (None, 1), (None, 143))
    """
    if returncode < 0:
        return -returncode, None
    number = returncode - _SHELL
    known = {int(s) for s in signal.Signals}
    if not finished and 0 < number <= _LAST_SIGNAL and number in known:
        return number, returncode
    return None, returncode


def native_library(dump: str, kernel: str) -> str:
    """Returns the library of the frame that crashed: from the kernel log, else from the C stack
    that Python 3.14 and later dump."""
    told = _IN_LIBRARY.search(kernel)
    if told is not None:
        return told[1]
    names = _C_FRAME.findall(dump)
    return next((name for name in names if not _NOT_TO_BLAME.match(name)), "")


def free_disk(folders: Iterable[Path]) -> dict[str, int]:
    """Returns free bytes by folder, without folders that do not exist."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            stat = os.statvfs(folder)
            found[str(folder)] = stat.f_bavail * stat.f_frsize
    return found


def without_inodes(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns folders whose file system can take no new file, whatever space is free."""
    found = []
    for folder in folders:
        with suppress(OSError):
            stat = os.statvfs(folder)
            if stat.f_files and not stat.f_favail:  # 0 files: it does not count them
                found.append(str(folder))
    return tuple(dict.fromkeys(found))
