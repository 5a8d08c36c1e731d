"""What the Python processes of a command leave about themselves: stacks, and a note at the end.

`site/sitecustomize.py` writes there: stacks-PID.txt by faulthandler, and for the command itself
python-PID.txt (version, executable, search path) and end-PID.txt (how Python was shut down).
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ttf.process.lifeline import is_stopped

_SITE: Final = Path(__file__).parent / "site/sitecustomize.py"
FOLDER, GUARD = "TTF_GUARD_STACKS", "TTF_GUARD_PID"
_DUMP_SIGNAL_FROM_END: Final = 3
_MOST_BYTES: Final = 256 << 10
_RECENT_S: Final = 10.0
_FATAL: Final = "Fatal Python error: "
_SETTLED_S: Final = 0.15
_LONGEST_S: Final = 3.0
_PAUSE_S: Final = 0.02


class Interpreter(NamedTuple):
    """The Python that the command itself is."""

    version: str
    executable: str
    comm: str
    """What the kernel called it when it started; '' where that is not known."""
    path: tuple[str, ...]


class Stacks:
    """One folder of notes, for one start of the command after the other."""

    def __init__(self, folder: Path, site: Path) -> None:
        """`site` is where the module for the Pythons is put, compiled for those of our version:
        many may start, and not everywhere may they keep what they compiled. Raises OSError."""
        self.folder, self._site = folder, site
        copy = shutil.copy(_SITE, site)
        py_compile.compile(str(copy), doraise=True)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What has the Pythons among the command's processes write there."""
        paths = [str(self._site), *filter(None, [environ.get("PYTHONPATH")])]
        return {
            "PYTHONPATH": os.pathsep.join(paths),
            FOLDER: str(self.folder),
            GUARD: str(os.getpid()),
        }

    def clear(self) -> None:
        """Before the next start."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def tidy(self, alive: Iterable[int]) -> None:
        """Removes the empty files of processes that are gone."""
        living = set(alive)
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                pid = _pid_of(entry.name)
                if pid is not None and pid not in living and not entry.stat().st_size:
                    Path(entry.path).unlink(missing_ok=True)

    def interpreter(self, pid: int) -> Interpreter | None:
        """None where the process is no Python that took notice of us."""
        lines = self._text(f"python-{pid}.txt").splitlines()
        if len(lines) < 3:
            return None
        version, executable, comm, *path = lines
        return Interpreter(version, executable, comm, tuple(path))

    def ended(self, pid: int) -> str:
        """'in order', 'uncaught KeyError', or '': Python was never shut down in that process."""
        return self._text(f"end-{pid}.txt")

    def of(self, pid: int) -> str:
        """The stacks that one process wrote; may be cut anywhere."""
        return self._text(f"stacks-{pid}.txt")

    def all(self) -> dict[int, str]:
        """Those of every process that wrote any."""
        found = {}
        for path in sorted(self.folder.glob("stacks-*.txt")):
            pid = _pid_of(path.name)
            if pid is not None and (text := self.of(pid)).strip():
                found[pid] = text
        return found

    def fresh_crash(self, signal_name: str = "") -> str:
        """The stacks of the one process that crashed within the last seconds; '' where there is
        none, or more than one. `signal_name`: only of that signal, as faulthandler calls it."""
        since = time.time() - _RECENT_S
        found = []
        for pid, text in self.all().items():
            with contextlib.suppress(OSError):
                written = (self.folder / f"stacks-{pid}.txt").stat().st_mtime
                if written >= since and f"{_FATAL}{signal_name}" in text:
                    found.append(text)
        return found[0] if len(found) == 1 else ""

    def ask(self, pids: Iterable[int]) -> None:
        """Has every process that can write its stacks do so, and waits a moment for them. Those
        that are stopped go on for that moment."""
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
        """Until the files grow no more."""
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
    """As in site/sitecustomize.py, which cannot import this."""
    last = getattr(signal, "SIGRTMAX", None)
    return int(signal.SIGUSR2) if last is None else int(last) - _DUMP_SIGNAL_FROM_END


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal that would end it otherwise; not known, and so
    False, without /proc."""
    if sys.platform != "linux":
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
