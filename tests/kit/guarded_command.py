"""A guarded command in a session of its own, and what is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
from tests.conftest import wait_until

PYTHON: Final = sys.executable
OURS: Final = b"ttf guard:"


class Guarded:
    """`ttf guard OPTIONS -- WORDS`, started."""

    def __init__(
        self,
        folder: Path,
        words: Sequence[str],
        *options: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | Any = subprocess.PIPE,
        stderr: int | Any = subprocess.PIPE,
        pass_fds: Iterable[int] = (),
    ) -> None:
        self.folder, self._stdin = folder, stdin
        self.process = subprocess.Popen(
            [PYTHON, "-m", "ttf", "guard", *options, "--", *words],
            cwd=folder,
            env=os.environ | {"TMPDIR": str(folder / "tmp")} | dict(env or {}),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
        self.out, self.err = b"", b""

    def wait(self, timeout_s: float = 120) -> int:
        self.out, self.err = self.process.communicate(self._stdin, timeout=timeout_s)
        return self.process.returncode

    def until(self, text: str) -> bytes:
        """What was on its standard error when it had said so."""
        assert self.process.stderr is not None
        seen = b""
        while text not in ours(seen):
            more = os.read(self.process.stderr.fileno(), 4096)
            assert more, f"it never said {text!r}: {seen!r}"
            seen += more
        return seen

    def pid_of(self, name: str = "ready") -> int:
        """That a script told by a file of this name."""
        path = self.folder / name
        wait_until(path.exists, 60)
        return int(path.read_text())

    @property
    def child(self) -> int:
        """The command itself."""
        parent = psutil.Process(self.process.pid)
        wait_until(lambda: bool(parent.children()))
        return int(parent.children()[0].pid)

    def close(self) -> None:
        """Ends the guard and all it started; leaves nothing in the folder for temporary files."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            for process in [psutil.Process(self.process.pid), *children]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self.process.wait()


def theirs(err: bytes) -> bytes:
    """Standard error without our own lines."""
    return b"".join(x for x in err.splitlines(keepends=True) if not x.startswith(OURS))


def ours(err: bytes) -> str:
    """Our own lines as one text."""
    lines = [x for x in err.decode(errors="replace").splitlines() if x.startswith(OURS.decode())]
    return " ".join(line.removeprefix(OURS.decode()).strip() for line in lines)


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def incident(folder: Path, number: str = "001") -> Any:
    return json.loads((folder / "incidents" / number / "incident.json").read_text())


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def send(pid: int, signum: signal.Signals) -> None:
    os.kill(pid, signum)


def pause(seconds: float) -> None:
    """For things that show in nothing a test can look at."""
    time.sleep(seconds)
