"""Processes as Linux tells of them, for tests that disturb them."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

TRAINER: Final = "ttf.training.launch"
WORKER: Final = "ttf.mining.worker_main"
_PR_SET_CHILD_SUBREAPER: Final = 36


def with_variable(name: str, value: str) -> Iterator[int]:
    """Those that have it in their environment, whoever their parent is; zombies have none."""
    wanted = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def children_of(pid: int) -> list[int]:
    """Of any of its threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += [int(number) for number in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """All below it; not itself."""
    found = children_of(pid)
    for child in found:
        found.extend(children_of(child))
    return found


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def alive(pid: int) -> bool:
    """Zombies are not."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat[stat.rindex(b")") + 2 :][:1] not in (b"Z", b"X")
    return False


def is_trainer(pid: int) -> bool:
    return leads_session_as(pid, TRAINER)


def leads_session_as(pid: int, module: str) -> bool:
    """The keeper of a trainer or worker has the same command line, but leads no session."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid and module in command_line(pid).split()
    return False


@contextlib.contextmanager
def adopting() -> Iterator[Callable[[], list[int]]]:
    """Orphans come to this process, as they come to a process 1 that reaps nobody. Yields how to list
    those that have ended, and reaps them."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def reaped() -> list[int]:
        found: list[int] = []
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                found.append(pid)
        return found

    try:
        yield reaped
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)
