"""Waits for the lock of a folder that several runs share: says so, and not for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.process import platform
from ttf.process.lifeline import is_stopped

if TYPE_CHECKING:
    import filelock

_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Patience:
    say_after_s: float = 5.0
    # A process that builds a large index takes minutes.
    busy_s: float = 300.0
    # One that is stopped, or in another container or on another machine, may never end.
    unseen_s: float = 30.0


def wait_for(
    lock: filelock.BaseFileLock,
    say: Callable[[str], None],
    patience: Patience = Patience(),
) -> AbstractContextManager[Any]:
    """Holds the lock, or raises TimeoutError (an OSError) that names the holder."""
    import filelock

    began, said = time.monotonic(), False
    while True:
        try:
            return lock.acquire(timeout=_LOOK_EVERY_S, poll_interval=_LOOK_EVERY_S)
        except filelock.Timeout:
            waited = time.monotonic() - began
        if waited < min(patience.say_after_s, patience.unseen_s):
            continue
        path = Path(lock.lock_file)
        pid = holder(path)
        at_work = pid is not None and not is_stopped(pid)
        limit = patience.busy_s if at_work else patience.unseen_s
        if waited >= limit:
            raise TimeoutError(f"{_who(pid)} has held {path} for more than {waited:.0f} s")
        if not said:
            say(f"{_who(pid)} holds {path}. ttf waits for it, at most {limit:.0f} s.")
            said = True


def holder(path: Path) -> int | None:
    """The process that holds a lock on the file; None if the system does not tell."""
    if not platform.PROC:
        return None
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for words in map(str.split, lines):
        # 1: FLOCK ADVISORY WRITE 4242 08:01:131072 0 EOF
        if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
            pid = int(words[4])
            return pid if pid > 0 and Path(f"/proc/{pid}").exists() else None
    return None


def _who(pid: int | None) -> str:
    if pid is None:
        return "A process of another container, machine or user"
    if pid == os.getpid():
        return f"This process ({pid})"
    if is_stopped(pid):
        return f"Process {pid}, which is stopped (kill -CONT {pid} continues it),"
    return f"Process {pid}"
