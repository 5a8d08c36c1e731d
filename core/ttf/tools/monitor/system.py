"""Facts about processes from psutil; on Linux their memory as `ttf.machine.memory` reads it.

On macOS, psutil's `uss` is nearest to what counts against a process. Shared pages and mapped files
cannot be told apart and count as file-backed (see `ttf.machine.memory._darwin`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped, unused-ignore]

from ttf.machine.memory import _linux

T = TypeVar("T")
# Where our words differ from psutil's.
_STATES: Final = {"disk-sleep": "disk wait", "tracing-stop": "traced"}


class Raw(NamedTuple):
    pid: int
    parent: int
    session: int  # 0: unknown
    started: float  # identifies the process if its number is used again
    # Command line; the short name if there is none (zombie, kernel process).
    words: tuple[str, ...]
    state: str
    threads: int
    cpu_s: float
    anon: int | None  # None: not allowed to read
    shared: int | None
    file: int | None


def read(pid: int) -> list[Raw]:
    """The process and its descendants; [] if it is gone."""
    if started(pid) is None:
        return []
    return [raw for each in _tree(pid) if (raw := _one(each)) is not None]


def started(pid: int) -> float | None:
    """Unix time of its start; None if it is gone or a zombie."""
    try:
        process = psutil.Process(pid)
        gone = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if gone else float(process.create_time())
    except psutil.Error:
        return None


def owner(pid: int) -> str | None:
    """The user of the process if it is another user's and we are not root; else None."""
    try:
        process = psutil.Process(pid)
        if os.geteuid() in (0, process.uids().effective):
            return None
        name = str(process.username())
    except psutil.Error:
        return None
    return f"user {name}" if name.isdigit() else name  # without a name, as in containers


def open_files(pid: int) -> list[str]:
    """Paths of its open files; [] if not allowed."""
    try:
        return [file.path for file in psutil.Process(pid).open_files()]
    except psutil.Error:
        return []


def _tree(pid: int) -> list[int]:
    if sys.platform == "linux":  # psutil would look at every process of the machine
        return _linux.descendants(pid)
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def _one(pid: int) -> Raw | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = _allowed(process.cpu_times)
            state = process.status()
            anon, shared, file = _memory(process)
            return Raw(
                pid=pid,
                parent=process.ppid(),
                session=_session(pid),
                started=process.create_time(),
                words=tuple(_allowed(process.cmdline) or (process.name(),)),
                state=_STATES.get(state, state),
                threads=_allowed(process.num_threads) or 0,
                cpu_s=times.user + times.system if times else 0.0,
                anon=anon,
                shared=shared,
                file=file,
            )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _memory(process: Any) -> tuple[int | None, int | None, int | None]:
    if sys.platform == "linux":
        return _linux.status(process.pid) or (0, 0, 0)  # a zombie has none left
    return memory_by_psutil(process)


def memory_by_psutil(process: Any) -> tuple[int | None, int | None, int | None]:
    """Anonymous, shared, file-backed."""
    use = _allowed(process.memory_full_info)
    return (None, None, None) if use is None else (use.uss, 0, max(0, use.rss - use.uss))


def _allowed(ask: Callable[[], T]) -> T | None:
    """None if the system refuses."""
    try:
        return ask()
    except (psutil.AccessDenied, psutil.ZombieProcess):
        return None


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
