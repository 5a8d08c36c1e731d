"""The stacks of a command's Python processes, and a note at their end.

`site/sitecustomize.py` writes both: stacks-PID.txt by faulthandler, and for the command itself
python-PID.txt (version, executable, search path) and end-PID.txt (how Python was shut down).
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ttf.process import platform
from ttf.process.lifeline import is_stopped

_SITE: Final = Path(__file__).parent / "site/sitecustomize.py"
FOLDER, GUARD = "TTF_GUARD_STACKS", "TTF_GUARD_PID"
UNBUFFERED: Final = "PYTHONUNBUFFERED"
_DUMP_SIGNAL_FROM_END: Final = 3
_MOST_BYTES: Final = 256 << 10
_RECENT_S: Final = 10.0
_FATAL: Final = "Fatal Python error: "
_SETTLED_S: Final = 0.15
_LONGEST_S: Final = 3.0
_PAUSE_S: Final = 0.02


class Interpreter(NamedTuple):
    """The Python of the command itself."""

    version: str
    executable: str
    comm: str  # the kernel's name of it at its start; '' if unknown
    path: tuple[str, ...]


class Stacks:
    """A folder of notes, used for all starts of the command."""

    def __init__(self, folder: Path, site: Path) -> None:
        """Copies sitecustomize to `site` and compiles it for Pythons of our version: many may
        start, and they may not be able to save the compiled file. Raises OSError."""
        self.folder, self._site = folder, site
        copy = shutil.copy(_SITE, site)
        py_compile.compile(str(copy), doraise=True)

    def environment(self, environ: Mapping[str, str], *, buffered: bool = False) -> dict[str, str]:
        """The variables that make every Python of the command write here.

        Unless `buffered`, what they print is written at once: a crash would take the last lines.
        """
        paths = [str(self._site), *filter(None, [environ.get("PYTHONPATH")])]
        at_once = {} if buffered or UNBUFFERED in environ else {UNBUFFERED: "1"}
        return {
            **at_once,
            "PYTHONPATH": os.pathsep.join(paths),
            FOLDER: str(self.folder),
            GUARD: str(os.getpid()),
        }

    def clear(self) -> None:
        """Deletes the notes, before the next start."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def tidy(self, alive: Iterable[int]) -> None:
        """Removes the empty files of processes that have ended."""
        living = set(alive)
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                pid = _pid_of(entry.name)
                if pid is not None and pid not in living and not entry.stat().st_size:
                    Path(entry.path).unlink(missing_ok=True)

    def interpreter(self, pid: int) -> Interpreter | None:
        """None if the process is no Python, or did not load sitecustomize."""
        lines = self._text(f"python-{pid}.txt").splitlines()
        if len(lines) < 3:
            return None
        version, executable, comm, *path = lines
        return Interpreter(version, executable, comm, tuple(path))

    def ended(self, pid: int) -> str:
        """'in order', 'uncaught KeyError', or '' if Python was never shut down in the process."""
        return self._text(f"end-{pid}.txt").partition("\n")[0]

    def of(self, pid: int) -> str:
        """The stacks of one process; may be cut anywhere."""
        return self._text(f"stacks-{pid}.txt")

    def all(self) -> dict[int, str]:
        """The stacks of every process that wrote some."""
        found = {}
        for path in sorted(self.folder.glob("stacks-*.txt")):
            pid = _pid_of(path.name)
            if pid is not None and (text := self.of(pid)).strip():
                found[pid] = text
        return found

    def fresh_crash(self, signal_name: str = "") -> str:
        """The stacks of the process that crashed in the last seconds; '' if none or several did.

        `signal_name`: only this signal, as faulthandler calls it.
        """
        since = self._file_time() - _RECENT_S
        found = []
        for pid, text in self.all().items():
            with contextlib.suppress(OSError):
                written = (self.folder / f"stacks-{pid}.txt").stat().st_mtime
                if written >= since and f"{_FATAL}{signal_name}" in text:
                    found.append(text)
        return found[0] if len(found) == 1 else ""

    def _file_time(self) -> float:
        # The clock that the files' times are of: that of this process may be another.
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                return os.fstat(file.fileno()).st_mtime
        except OSError:  # the disk is full
            return time.time()

    def ask(self, pids: Iterable[int]) -> None:
        """Makes processes with a handler write their stacks, and waits; stopped ones run meanwhile."""
        asked = [pid for pid in pids if catches(pid, dump_signal())]
        held = [pid for pid in asked if is_stopped(pid)]
        for pid in asked:
            _send(pid, dump_signal())
        for pid in held:
            _send(pid, signal.SIGCONT)
        self._wait(asked)
        for pid in held:
            _send(pid, signal.SIGSTOP)

    def _wait(self, asked: list[int]) -> None:
        # Until the files stop growing.
        ends_at, settled_at, seen = time.monotonic() + _LONGEST_S, 0.0, -1
        while asked and time.monotonic() < ends_at:
            size = sum(len(self.of(pid)) for pid in asked)
            if size != seen:
                seen, settled_at = size, time.monotonic() + _SETTLED_S
            elif time.monotonic() > settled_at and all(self.of(pid) for pid in asked):
                return
            time.sleep(_PAUSE_S)

    def _text(self, name: str) -> str:
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _MOST_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def dump_signal() -> int:
    # As in site/sitecustomize.py, which cannot import this module.
    last = getattr(signal, "SIGRTMAX", None)
    return int(signal.SIGUSR2) if last is None else int(last) - _DUMP_SIGNAL_FROM_END


def catches(pid: int, signum: int) -> bool:
    """Whether a process handles a signal that would end it otherwise. Without /proc False: unknown."""
    if not platform.LINUX:
        return False
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
    return bool(int(mask, 16) >> (signum - 1) & 1)


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def _pid_of(name: str) -> int | None:
    digits = name.removeprefix("stacks-").removesuffix(".txt")
    return int(digits) if digits.isdigit() else None
