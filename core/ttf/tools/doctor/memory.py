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
    rlimits,
)
from ttf.machine.memory.watch import Gauge
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
    limits = _limits(exam.root)
    evidence = [f"{size(limit.bytes)}: {limit.source}" for limit in limits]
    short = [limit for limit in limits if limit.bytes < _needed(limit)]
    if short:
        limit = short[0]
        return fail(
            f"{size(limit.bytes)} allowed by {limit.source}: torch alone needs "
            f"{size(_needed(limit))}.",
            *evidence,
            remedy=_remedy(limit),
        )
    limit = limits[0]
    free, source = _free(exam.root)
    evidence.append(f"{size(free)} free now: {source}")
    if free < NEEDED:
        return fail(
            f"{size(free)} of memory are free now ({source}): torch alone needs {size(NEEDED)}.",
            *evidence,
            remedy="End what else uses memory here, or give this machine or container more.",
        )
    tight = next((lim for lim in limits if lim.bytes < _comfortable(lim)), None)
    if tight is not None or free < COMFORTABLE:
        what = (
            f"{size(tight.bytes)} allowed by {tight.source}"
            if tight is not None
            else f"{size(free)} free now ({source})"
        )
        return warn(
            f"{what}: enough for torch, and for small runs only.",
            *evidence,
            remedy="See what a run takes before it starts: ttf train RUN.toml --plan.",
        )
    return ok(f"{size(limit.bytes)} allowed ({limit.source}), {size(free)} free now", *evidence)


def _limits(root: Path) -> list[Limit]:
    # Smallest first. A version 1 group without a limit reports a huge number; it is left out.
    machine = Limit(_physical(), "physical memory")
    groups = [limit for _, limit in group_limits(root) if limit.bytes <= machine.bytes]
    return sorted({machine, *groups, *rlimits()}, key=lambda limit: limit.bytes)


def _physical() -> int:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    return int(psutil.virtual_memory().total)


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
        return "Raise it (ulimit -v unlimited): it counts addresses, mapped files included."
    if limit.source == "RLIMIT_DATA":
        return "Raise it: ulimit -d unlimited."
    if limit.source.startswith("cgroup"):
        return (
            "Give the container or job more: docker run --memory 4g, Slurm --mem=4G, "
            "Kubernetes resources.limits.memory."
        )
    return "This machine is too small: train elsewhere."


# --- control groups --------------------------------------------------------------------------------


def look_at_cgroup(exam: Examination) -> Verdict:
    if sys.platform != "linux":
        return skip("control groups are Linux's")
    folders = list(group_folders("memory", exam.root))
    if not folders:
        return ok("no control group of memory is visible from here")
    limits = [limit for _, limit in group_limits(exam.root) if limit.bytes <= _physical()]
    counters = list(_kills(exam.root))
    count, source = exam.processors
    evidence = [
        *(f"{size(limit.bytes)}: {limit.source}" for limit in limits),
        *(f"{kills} kills for memory so far: {name}" for name, kills in counters),
        f"{count} {source}",
    ]
    short = min((limit for limit in limits if limit.bytes < NEEDED), default=None)
    if short is not None:
        return fail(
            f"{short.source} allows {size(short.bytes)}: torch alone needs {size(NEEDED)}.",
            *evidence,
            remedy=_remedy(short),
        )
    reading = Gauge(os.getpid(), root=exam.root).read()
    if reading.source.startswith("cgroup") and reading.share >= _NEARLY_FULL:
        return warn(
            f"The group is nearly full: {reading.text}.",
            *evidence,
            remedy="Find out what else runs in it; the kernel kills when it is full.",
        )
    killed = [kills for name, kills in counters if kills and not name.startswith(MACHINE)]
    if killed:
        return warn(
            f"The kernel has killed {killed[0]} process(es) of this group for memory so far.",
            *evidence,
            remedy="Compare the limit with what runs take: ttf train RUN.toml --plan.",
        )
    if not limits:
        return ok("no control group limits memory below the machine's", *evidence)
    least = min(limits)
    return ok(f"{size(least.bytes)} allowed by {least.source}", *evidence)


def _kills(root: Path) -> Iterator[tuple[str, int]]:
    mount = root / "sys/fs/cgroup"
    for file, count in OomCounters.read("self", root).counts.items():
        own = file.is_relative_to(mount)
        yield (f"cgroup /{file.relative_to(mount)}" if own else MACHINE), count
