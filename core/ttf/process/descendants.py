"""A process and whatever it started, wherever that was re-parented to: found, and ended.

An orphan belongs to init or to the nearest subreaper, and its parent's number says nothing any more.
What stays is the session it is in, and, where it made one of its own, a variable that it inherited.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TREE: Final = "TTF_TREE"
"""Every process of a run has this variable: who ends the run ends these, and nobody else's."""
WORKER: Final = "TTF_WORKER"
"""The same for a miner's worker and what it starts, which is part of the run's tree as well."""
NO_SESSION: Final = 2**31 - 1
"""No session has that number: members are told by the mark alone."""
_SHARED_MEMORY: Final = Path("/dev/shm")
_ROUNDS: Final = 100
_PAUSE_S: Final = 0.01
_PR_SET_CHILD_SUBREAPER: Final = 36


def kill(session: int, mark: str, variable: str) -> None:
    """Ends every member of the tree but ourselves, within about a second.

    Call it before the process is reaped: alive or a zombie, it keeps its number from being used
    again, and the signal from hitting a stranger.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgrp() != session:
            os.killpg(session, signal.SIGKILL)
    for _ in range(_ROUNDS):  # one of them may have been starting another; a kill takes a moment
        found = list(members(session, mark, variable))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def remove_marks(pid: int) -> None:
    """LLVM's OpenMP registers itself in shared memory, to notice a second copy of itself, and is
    not there to take that back when it is killed."""
    for left in _SHARED_MEMORY.glob(f"__KMP_REGISTERED_LIB_{pid}_*"):
        with contextlib.suppress(OSError):  # somebody else's, under a number that was used before
            left.unlink(missing_ok=True)


def members(session: int, mark: str, variable: str) -> Iterator[int]:
    """Living processes of the session or with the mark, ourselves and zombies excepted."""
    if sys.platform == "linux":
        wanted = f"{variable}={mark}".encode()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
                    if _belongs(Path(entry.path), session, wanted):
                        yield int(entry.name)
        return
    import psutil  # type: ignore[import-untyped, unused-ignore]

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) == session or process.environ().get(variable) == mark:
                yield process.pid


def _belongs(process: Path, session: int, wanted: bytes) -> bool:
    stat = (process / "stat").read_bytes()
    state, _, _, its_session = stat[stat.rindex(b")") + 2 :].split()[:4]
    if state in (b"Z", b"X"):
        return False
    return int(its_session) == session or wanted in (process / "environ").read_bytes().split(b"\0")


def adopt_orphans() -> None:
    """What a dead child leaves behind becomes our child, to be found and reaped (Linux):
    https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html"""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def is_stopped(pid: int) -> bool:
    """Whether a process is held by SIGSTOP; False where it is gone."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat[stat.rindex(b")") + 2 :][:1] == b"T"
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False
