"""Checks `disk`, `shm` and `ulimits`. They only look, they never write."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf.hookspecs import Verdict
from ttf.process.limits import FILES
from ttf.rundir.cache import cache_dir
from ttf.text.numbers import size
from ttf.tools.doctor.check import fail, ok, skip, warn
from ttf.tools.doctor.context import Examination

MB: Final = 10**6
LEAST_FREE: Final = 50 * MB
COMFORTABLE_FREE: Final = 1000 * MB
SHM: Final = "dev/shm"
SHM_LEAST: Final = 64 << 20  # Docker's default, too little for data loaders
FILES_COMFORTABLE = 1024
STACK_LEAST: Final = 1 << 20


# --- disk ------------------------------------------------------------------------------------------


def look_at_disk(_: Examination) -> Verdict:
    wanted = {
        "runs": Path.cwd() / "runs",
        "the cache (TTF_HOME)": cache_dir(),
        "temporary files": Path(tempfile.gettempdir()),
    }
    places = {name: existing(path) for name, path in wanted.items()}
    evidence = [
        f"{name}: {wanted[name]}, {_problem(there) or f'{size(room(there))} free'}"
        for name, there in places.items()
    ]
    for name, there in places.items():
        problem = _problem(there)
        if problem:
            return fail(
                f"The folder for {name}, {wanted[name]}, cannot be used: {problem}.",
                *evidence,
                remedy=_other_folder(name),
            )
    name, least = min(
        ((name, room(there)) for name, there in places.items()), key=lambda row: row[1]
    )
    if least < COMFORTABLE_FREE:
        return warn(
            f"Only {size(least)} are free for {name} ({wanted[name]}). Checkpoints and indexes "
            "may need more.",
            *evidence,
            remedy=f"Free some space. {_other_folder(name)}",
        )
    return ok(f"at least {size(least)} are free for runs, cache and temporary files", *evidence)


def existing(path: Path) -> Path:
    """The nearest existing folder at or above `path`."""
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def _problem(folder: Path) -> str:
    stat = os.statvfs(folder)
    if not folder.is_dir():
        return f"{folder} is a file"
    if stat.f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"you have no write permission for {folder}"
    if stat.f_files and not stat.f_favail:
        return "its file system cannot hold more files (no free inodes)"
    if room(folder) < LEAST_FREE:
        return f"only {size(room(folder))} are free"
    return ""


def room(folder: Path) -> int:
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


def _other_folder(name: str) -> str:
    if name == "runs":
        return "Choose another folder: ttf train --out DIR."
    variable = "TTF_HOME" if "TTF_HOME" in name else "TMPDIR"
    return f"Choose another folder: export {variable}=DIR."


# --- shared memory ---------------------------------------------------------------------------------


def look_at_shm(exam: Examination) -> Verdict:
    # ttf does not need /dev/shm; the data loaders of other scripts do.
    folder = exam.root / SHM
    if sys.platform != "linux":
        return skip("/dev/shm exists only on Linux")
    if not folder.is_dir():
        return warn(
            "/dev/shm does not exist. Data loaders with worker processes need it and will fail.",
            remedy="Mount a tmpfs at /dev/shm. ttf itself does not need it.",
        )
    stat = os.statvfs(folder)
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    about = f"/dev/shm has {size(total)}, {size(free)} are free"
    if free <= SHM_LEAST or not os.access(folder, os.W_OK):
        return warn(
            f"{about}. A data loader with worker processes needs more and would end with a bus "
            "error. ttf itself does not use /dev/shm.",
            remedy=(
                "Make /dev/shm of the container larger: docker run --shm-size=2g, or --ipc=host."
            ),
        )
    return ok(about)


# --- limits of a process ---------------------------------------------------------------------------


def look_at_ulimits(_: Examination) -> Verdict:
    soft = {name: resource.getrlimit(which)[0] for name, which in _limits()}
    evidence = [f"{name}: {_limit_text(value)}" for name, value in soft.items()]
    files = _number(soft["open files (-n)"])
    if files < FILES:
        return fail(
            f"A process may open only {files} files. torch and its libraries need more.",
            *evidence,
            remedy="ulimit -n 4096",
        )
    problems = list(_problems(soft))
    if problems:
        text = "; ".join(what for what, _ in problems)
        remedy = ", ".join(mend for _, mend in problems)
        return warn(f"{text[:1].upper()}{text[1:]}.", *evidence, remedy=remedy)
    cores = "kept" if _number(soft["core files (-c)"]) else "not kept"
    return ok(
        f"{_limit_text(soft['open files (-n)'])} open files; core dumps are {cores}", *evidence
    )


def _limits() -> Iterator[tuple[str, int]]:
    yield "open files (-n)", resource.RLIMIT_NOFILE
    yield "core files (-c)", resource.RLIMIT_CORE
    yield "file size (-f)", resource.RLIMIT_FSIZE
    yield "processor time (-t)", resource.RLIMIT_CPU
    yield "stack (-s)", resource.RLIMIT_STACK
    yield "locked memory (-l)", resource.RLIMIT_MEMLOCK
    yield "processes (-u)", resource.RLIMIT_NPROC


def _problems(soft: dict[str, int]) -> Iterator[tuple[str, str]]:
    files, stack = _number(soft["open files (-n)"]), _number(soft["stack (-s)"])
    if files < FILES_COMFORTABLE:
        yield (
            f"a process may open only {files} files, but a Zarr bank can consist of many files",
            "ulimit -n 4096",
        )
    if soft["file size (-f)"] != resource.RLIM_INFINITY:
        yield (
            (
                f"a process that writes a file of more than {size(soft['file size (-f)'])} is killed "
                "(SIGXFSZ)"
            ),
            "ulimit -f unlimited",
        )
    if soft["processor time (-t)"] != resource.RLIM_INFINITY:
        yield (
            f"a process is killed after {soft['processor time (-t)']} s of CPU time (SIGXCPU)",
            "ulimit -t unlimited",
        )
    if stack < STACK_LEAST:
        yield f"a stack of {size(stack)} is too small for native code", "ulimit -s 8192"


def _number(value: int) -> int:
    return sys.maxsize if value == resource.RLIM_INFINITY else value


def _limit_text(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"
