"""Environment variables for the threads of native libraries; they count when a library loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# With these OpenMP may start fewer threads than a library asks for. oneDNN divides a product among
# the threads that it asked for: the part of a thread that never started is never written, and the
# result holds what was in memory before (torch 2.13, libgomp, 2026-11).
FEWER_THREADS: Final = ("OMP_DYNAMIC", "OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS")


def thread_environment(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def gives_fewer(environment: Mapping[str, str], threads: int) -> list[str]:
    """The variables of `FEWER_THREADS` that do harm to a process of so many threads."""
    harm: Mapping[str, Callable[[str], bool]] = {
        "OMP_DYNAMIC": lambda value: value.strip().lower() in ("true", "1"),
        "OMP_THREAD_LIMIT": lambda value: _number(value, threads) < threads,
        "OMP_MAX_ACTIVE_LEVELS": lambda value: _number(value, 1) < 1,
    }
    if threads == 1:
        return []
    return [name for name in FEWER_THREADS if name in environment and harm[name](environment[name])]


def _number(text: str, otherwise: int) -> int:
    try:
        return int(text)
    except ValueError:  # OpenMP ignores it as well
        return otherwise
