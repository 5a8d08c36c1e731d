"""A child that leaves when its parent does: life line, parent-death signal, stacks on demand.

Several nets, because each has a hole: a thread that reads the life line cannot act while C code
holds the interpreter lock; the parent-death signal is Linux's alone and follows the thread that
spawned; neither ends what the child has started itself. That is left to a keeper: another process,
which can be killed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from ttf.errors import ExitCode
from ttf.process import messages

ORPHANED: Final = 120
"""Exit code of a child whose parent is gone; nobody is left to read it."""
PARENT_STOPPED: Final = 121
"""Exit code of a child whose parent was stopped (SIGSTOP) and cannot watch over it."""
_PR_SET_PDEATHSIG: Final = 1
_LOOK_EVERY_S: Final = 0.4


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process with the thread that spawned it (Linux; elsewhere the
    life line alone does it). `parent` is who spawned us: they may be gone already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(ORPHANED)


def wake_when_parent_ends() -> None:
    """A process that is stopped with its whole run (Ctrl-Z) goes on when its parent dies: it has to
    end what is left (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT))


def stacks_to(path: Path) -> IO[bytes]:
    """Every native death and SIGUSR1 write all threads' Python stacks there. Keep the file open:
    a descriptor that is used again would get the stacks of another time."""
    file = path.open("ab", buffering=0)
    faulthandler.enable(file=file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)
    return file


def follow(lifeline: int, obey: Callable[[dict[str, Any]], None]) -> threading.Thread:
    """Starts the thread that obeys the parent's messages and ends the process at end of file."""
    thread = threading.Thread(
        target=_follow, args=(lifeline, obey), name="ttf-lifeline", daemon=True
    )
    thread.start()
    return thread


def _follow(lifeline: int, obey: Callable[[dict[str, Any]], None]) -> None:
    reader = messages.Reader()
    try:
        with contextlib.suppress(OSError):
            while data := os.read(lifeline, 1 << 16):
                for message in reader.feed(data):
                    obey(message)
    except BaseException:  # noqa: BLE001 - deaf, it would hang: better an end that says why
        traceback.print_exc()
        os._exit(int(ExitCode.OUR_FAULT))
    os._exit(ORPHANED)


def leave_when_stopped(parent: int) -> threading.Thread:
    """Starts the thread that ends the process when its parent stays stopped: nobody would notice
    a hang or a lack of memory any more. A parent that is stopped by the terminal stops us first."""
    thread = threading.Thread(target=_watch, args=(parent,), name="ttf-parent-watch", daemon=True)
    thread.start()
    return thread


def _watch(parent: int) -> None:
    stopped_before = False
    while True:
        time.sleep(_LOOK_EVERY_S)
        stopped = is_stopped(parent)
        if stopped and stopped_before:
            os._exit(PARENT_STOPPED)
        stopped_before = stopped


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
