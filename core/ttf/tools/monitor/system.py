"""What the system tells of processes, by psutil; their memory on Linux as `ttf.machine.memory` reads it.

What macOS calls memory: `uss` is the nearest psutil has to what counts against a process; shared
pages and mapped files are not told apart and shown as file-backed (see `ttf.machine.memory._darwin`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped, unused-ignore]

from ttf.machine.memory import _linux

T = TypeVar("T")
_STATES: Final = {"disk-sleep": "disk wait", "tracing-stop": "traced"}
"""What psutil calls otherwise."""


class Raw(NamedTuple):
    """What a platform tells of one process."""

    pid: int
    parent: int
    session: int
    """0 where it is not known."""
    started: float
    """Tells a process from a later one with its number."""
    words: tuple[str, ...]
    """Of its command line; its short name where it has none (a zombie, the kernel's own)."""
    state: str
    threads: int
    cpu_s: float
    anon: int | None
    """None: may not be seen."""
    shared: int | None
    file: int | None


def read(pid: int) -> list[Raw]:
    """The process and its descendants; [] where it is gone."""
    if started(pid) is None:
        return []
    return [raw for each in _tree(pid) if (raw := _one(each)) is not None]


def started(pid: int) -> float | None:
    """Unix time of its start; None where it is gone, or only its exit code is left."""
    try:
        process = psutil.Process(pid)
        gone = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if gone else float(process.create_time())
    except psutil.Error:
        return None


def owner(pid: int) -> str | None:
    """The name of another user whose process it is, unless we may see everything."""
    try:
        process = psutil.Process(pid)
        if os.geteuid() in (0, process.uids().effective):
            return None
        name = str(process.username())
    except psutil.Error:
        return None
    return f"user {name}" if name.isdigit() else name  # without a name, as in containers


def open_files(pid: int) -> list[str]:
    """Paths it has open; [] where that may not be seen."""
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
    """None where the system does not tell us."""
    try:
        return ask()
    except (psutil.AccessDenied, psutil.ZombieProcess):
        return None


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
