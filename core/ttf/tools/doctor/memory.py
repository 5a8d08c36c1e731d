"""Checks `memory` and `cgroup`: how much memory a run may use, and which limit says so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf.hookspecs import Verdict
from ttf.machine.memory.limits import (
    MACHINE,
    Limit,
    OomCounters,
    group_folders,
    group_limits,
    physical_bytes,
    rlimits,
)
from ttf.machine.memory.watch import Gauge
from ttf.process import platform
from ttf.text.numbers import size
from ttf.tools.doctor.check import fail, ok, skip, warn
from ttf.tools.doctor.context import Examination

MB: Final = 10**6
# The trainer before it holds any data: torch takes 243 MB (Linux x86-64, torch 2.13).
NEEDED: Final = 300 * MB
# With less, parts of torch cannot be mapped. Mapped data needs more.
NEEDED_ADDRESSES: Final = 840 * MB
COMFORTABLE: Final = 1500 * MB
COMFORTABLE_ADDRESSES: Final = 8000 * MB
_NEARLY_FULL: Final = 0.9


def look_at_memory(exam: Examination) -> Verdict:
    if platform.LINUX and not (exam.root / "proc/meminfo").exists():
        return warn(platform.WITHOUT_PROC, remedy="Mount /proc in this container or sandbox.")
    limits = _limits(exam.root)
    evidence = [f"{size(limit.bytes)}: {limit.source}" for limit in limits]
    short = [limit for limit in limits if limit.bytes < _needed(limit)]
    if short:
        limit = short[0]
        return fail(
            f"The memory limit of {limit.source} is {size(limit.bytes)}, but torch alone needs "
            f"{size(_needed(limit))}.",
            *evidence,
            remedy=_remedy(limit),
        )
    limit = limits[0]
    free, source = _free(exam.root)
    evidence.append(f"{size(free)} are free now: {source}")
    if free < NEEDED:
        return fail(
            f"Only {size(free)} of memory are free now ({source}), but torch alone needs "
            f"{size(NEEDED)}.",
            *evidence,
            remedy=(
                "End other programs that use memory, or give this machine or container more memory."
            ),
        )
    tight = next((lim for lim in limits if lim.bytes < _comfortable(lim)), None)
    if tight is not None or free < COMFORTABLE:
        what = (
            f"The memory limit of {tight.source} is {size(tight.bytes)}"
            if tight is not None
            else f"{size(free)} of memory are free now ({source})"
        )
        return warn(
            f"{what}. This is enough for torch, but only for small runs.",
            *evidence,
            remedy="Before a run, see how much memory it needs: ttf train RUN.toml --plan.",
        )
    return ok(
        f"the limit is {size(limit.bytes)} ({limit.source}), {size(free)} are free now", *evidence
    )


def _limits(root: Path) -> list[Limit]:
    # Smallest first. A version 1 group without a limit reports a huge number; it is left out.
    machine = Limit(physical_bytes(), "physical memory")
    groups = [limit for _, limit in group_limits(root) if limit.bytes <= machine.bytes]
    return sorted({machine, *groups, *rlimits()}, key=lambda limit: limit.bytes)


def _free(root: Path) -> tuple[int, str]:
    """What is left below the nearest limit, or of the machine's memory if that is less."""
    import psutil  # type: ignore[import-untyped, unused-ignore]

    found = [(int(psutil.virtual_memory().available), "of the machine's memory")]
    reading = Gauge(os.getpid(), root=root).read()
    if not reading.source.startswith("RLIMIT"):  # each process has its own
        found.append((max(0, reading.limit - reading.held), reading.text))
    return min(found)


def _needed(limit: Limit) -> int:
    return NEEDED_ADDRESSES if limit.source == "RLIMIT_AS" else NEEDED


def _comfortable(limit: Limit) -> int:
    return COMFORTABLE_ADDRESSES if limit.source == "RLIMIT_AS" else COMFORTABLE


def _remedy(limit: Limit) -> str:
    if limit.source == "RLIMIT_AS":
        return (
            "Raise the limit: ulimit -v unlimited. It limits the address space, and mapped "
            "files count too."
        )
    if limit.source == "RLIMIT_DATA":
        return "Raise the limit: ulimit -d unlimited."
    if limit.source.startswith("cgroup"):
        return (
            "Give the container or job more memory: docker run --memory 4g, Slurm --mem=4G, "
            "Kubernetes resources.limits.memory."
        )
    return "This machine has too little memory. Train on another machine."


# --- control groups --------------------------------------------------------------------------------


def look_at_cgroup(exam: Examination) -> Verdict:
    if sys.platform != "linux":
        return skip("control groups exist only on Linux")
    folders = list(group_folders("memory", exam.root))
    if not folders:
        return ok("this process can see no control group that limits memory")
    limits = [limit for _, limit in group_limits(exam.root) if limit.bytes <= physical_bytes()]
    counters = list(_kills(exam.root))
    count, source = exam.processors
    evidence = [
        *(f"{size(limit.bytes)}: {limit.source}" for limit in limits),
        *(f"{kills} OOM kills so far: {name}" for name, kills in counters),
        f"{count} {source}",
    ]
    short = min((limit for limit in limits if limit.bytes < NEEDED), default=None)
    if short is not None:
        return fail(
            f"The limit of {short.source} is {size(short.bytes)}, but torch alone needs "
            f"{size(NEEDED)}.",
            *evidence,
            remedy=_remedy(short),
        )
    reading = Gauge(os.getpid(), root=exam.root).read()
    if reading.source.startswith("cgroup") and reading.share >= _NEARLY_FULL:
        return warn(
            f"The memory of the control group is almost used up: {reading.text}.",
            *evidence,
            remedy=(
                "Look for other programs in this control group. When its memory is used up, "
                "the kernel kills a process."
            ),
        )
    killed = [kills for name, kills in counters if kills and not name.startswith(MACHINE)]
    if killed:
        return warn(
            f"The kernel has killed {killed[0]} process(es) of this control group because memory "
            "ran out.",
            *evidence,
            remedy=(
                "Compare the limit with the memory that a run needs: ttf train RUN.toml --plan."
            ),
        )
    if not limits:
        return ok("no control group has a memory limit below the memory of the machine", *evidence)
    least = min(limits)
    return ok(f"the limit of {least.source} is {size(least.bytes)}", *evidence)


def _kills(root: Path) -> Iterator[tuple[str, int]]:
    mount = root / "sys/fs/cgroup"
    for file, count in OomCounters.read("self", root).counts.items():
        own = file.is_relative_to(mount)
        yield (f"cgroup /{file.relative_to(mount)}" if own else MACHINE), count
