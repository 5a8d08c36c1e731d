"""Limits of the system on open files and processes, said in one line when they are too low."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from typing import Final

from ttf.errors import LimitTooLow
from ttf.process import platform
from ttf.text.numbers import size

# The trainer of a small run has 30 open; libraries that it loads open some more.
FILES: Final = 64
# Raised so far where that is allowed: a Zarr bank may consist of many files.
_FILES_WANTED: Final = 1024
# Supervisor, trainer, miner's worker, their keepers and threads; without those that compute.
_TASKS: Final = 14
# With 676 MB of address space every command that loads torch 2.13 failed on Linux x86-64, often
# natively: OpenBLAS ends or interrupts the process, torch aborts. The smallest worked with 717 MB.
_ADDRESSES: Final = 680 * 10**6
# A higher limit is not looked at: counting a user's threads takes a while on a large machine.
_MANY_TASKS: Final = 4096


def ensure_files(needed: int = FILES) -> None:
    """Raises LimitTooLow if this process may not open so many files, after raising the limit as far
    as it is allowed to. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = _FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, _FILES_WANTED)
    if most < needed:
        raise _too_few_files(needed, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def ensure_tasks(threads: int) -> None:
    """Raises LimitTooLow if this user may not start what a run starts. `threads`: that compute in
    each of two processes."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if not platform.PROC or os.geteuid() == 0 or not 0 <= limit <= _MANY_TASKS:
        return
    needed, used = _TASKS + 2 * threads, _tasks_of(os.getuid())
    if limit - used < needed:
        raise LimitTooLow(
            f"A run needs {needed} processes and threads, and this user may start "
            f"{max(0, limit - used)} more: the limit is {limit} (ulimit -u), {used} exist.",
            hint="Raise the limit, e.g. ulimit -u 4096, or end other programs of this user.",
        )


def ensure_addresses() -> None:
    """Raises LimitTooLow if torch cannot be loaded in the address space of this process."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if platform.LINUX and 0 <= limit < _ADDRESSES:
        raise LimitTooLow(
            f"There is not enough address space to load torch: the limit is {size(limit)} "
            "(RLIMIT_AS).",
            hint="Raise the limit, e.g. ulimit -v unlimited.",
        )


def _tasks_of(user: int) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if entry.stat().st_uid == user:
                    count += sum(1 for _ in os.scandir(f"{entry.path}/task"))
    return count


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """For the start of a process: raises LimitTooLow where a limit is the reason of an OSError."""
    try:
        yield
    except OSError as error:
        told = no_other_process(error)
        if told is not None:
            raise told from error
        raise


def no_other_process(error: OSError) -> LimitTooLow | None:
    """The error for the user if a limit kept a process from starting; None for another OSError."""
    if error.errno != errno.EAGAIN:
        return files_used_up(error)
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    here = "This user has no limit" if limit < 0 else f"This user may have {limit} (ulimit -u)"
    return LimitTooLow(
        "The system refused to start another process, because too many processes and threads "
        f"exist. {here}; a container or the machine may allow fewer.",
        hint="Raise the limit, or end other programs.",
    )


def files_used_up(error: OSError) -> LimitTooLow | None:
    """The error for the user if open files are used up; None for another OSError."""
    if error.errno == errno.ENFILE:
        return LimitTooLow(
            "The whole machine has no room for another open file (fs.file-max).",
            hint="End other programs, or ask the administrator to raise fs.file-max.",
        )
    if error.errno != errno.EMFILE:
        return None
    return _too_few_files(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _too_few_files(needed: int, most: int) -> LimitTooLow:
    return LimitTooLow(
        f"ttf needs {needed} open files, and a process may have {most} here (ulimit -n).",
        hint="Raise the limit: ulimit -n 4096",
    )
