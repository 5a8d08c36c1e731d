"""Processes through psutil. Runs on Linux too, where it is tested: no Mac was at hand.

What macOS calls them: `uss` is the nearest psutil has to what counts against a process; shared
pages and mapped files are not told apart and shown as file-backed (see `ttf.machine.memory._darwin`).
"""

from __future__ import annotations

import os
from typing import Any

from ttf.tools.monitor.processes import Raw


class Darwin:
    def read(self, pid: int) -> list[Raw]:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        try:
            root = psutil.Process(pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                return []
            tree = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
        return [raw for process in tree if (raw := _one(process)) is not None]

    def started(self, pid: int) -> float | None:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return float(process.create_time())
        except psutil.NoSuchProcess:
            return None

    def owner(self, pid: int) -> str | None:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        try:
            process = psutil.Process(pid)
            if os.geteuid() in (0, process.uids().effective):
                return None
            return str(process.username())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None

    def open_files(self, pid: int) -> list[str]:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        try:
            return [file.path for file in psutil.Process(pid).open_files()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return []


def _one(process: Any) -> Raw | None:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        with process.oneshot():
            words = tuple(_allowed(process.cmdline) or (process.name(),))
            times = _allowed(process.cpu_times)
            anon, file = _memory(process)
            return Raw(
                pid=process.pid,
                parent=process.ppid(),
                session=_session(process.pid),
                started=process.create_time(),
                words=words,
                state=process.status(),
                threads=_allowed(process.num_threads) or 0,
                cpu_s=times.user + times.system if times else 0.0,
                anon=anon,
                shared=None if anon is None else 0,
                file=file,
            )
    except psutil.NoSuchProcess:
        return None


def _memory(process: Any) -> tuple[int | None, int | None]:
    use = _allowed(process.memory_full_info)
    if use is None:
        return None, None
    return use.uss, max(0, use.rss - use.uss)


def _allowed(ask: Any) -> Any:
    """None where the system does not tell us."""
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        return ask()
    except (psutil.AccessDenied, psutil.ZombieProcess):
        return None


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
