"""The incident classes for people: how each is recognised, what ttf does, what avoids it.

docs/incidents.md is made from this; a test holds it, and this, against the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class About:
    signature: str
    does: str
    remedy: str


_UNCHANGED: Final = "restarts unchanged; after the third crash at the same place, with a remedy"
_AT_ONCE: Final = "restarts with the remedy at once"
_ENDS: Final = "keeps the checkpoint and ends with exit code {}"
_SMALLER: Final = (
    "the same optimizer step in smaller micro-batches; in mining and evaluation, first a smaller "
    "`memory.budget`"
)
_NATIVE: Final = (
    "`--isolation process`; then `--device cpu`, fewer accumulated micro-batches, one thread"
)

CLASSES: Final[Mapping[str, About]] = {
    "omp-duplicate": About(
        signature="`OMP: Error #15: Initializing ..., but found ... already initialized`, SIGABRT",
        does=_AT_ONCE,
        remedy="`--isolation process`; if the miner's own process aborted, another miner. Never "
        "set `KMP_DUPLICATE_LIB_OK`: it silences the check, not the fault",
    ),
    "segfault": About(signature="SIGSEGV", does=_UNCHANGED, remedy=_NATIVE),
    "abort": About(
        signature="SIGABRT or SIGTRAP, and no message of a class below",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "heap-corruption": About(
        signature="SIGABRT and a message of the allocator: `double free`, `malloc(): corrupted ...`",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "cxx-exception": About(
        signature="SIGABRT and `terminate called ...`", does=_UNCHANGED, remedy=_NATIVE
    ),
    "bus-error": About(
        signature="SIGBUS; the incident lists the input file that was truncated or overwritten, if any",
        does=f"if an input changed: {_ENDS.format(3)}; else {_UNCHANGED}",
        remedy="restore the file; else the same as for `segfault`",
    ),
    "illegal-instruction": About(
        signature="SIGILL; SIGFPE (integer division by zero)",
        does=_UNCHANGED,
        remedy=f"build the library on this machine; {_NATIVE}",
    ),
    "oom-kill": About(
        signature="SIGKILL, and a kernel counter of OOM kills increased (cgroup `memory.events` or "
        "`memory.oom_control`, `/proc/vmstat`) or the kernel log reports that process",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "memory-limit": About(
        signature="`ttf` stopped the process before the kernel killed it",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "alloc-failure": About(
        signature="`MemoryError`, `std::bad_alloc`, `DefaultCPUAllocator`, device out of memory; "
        "exit code 1 with `OpenBLAS error: Memory allocation still failed` and no traceback",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "hang": About(
        signature="no progress for longer than the limit of the phase; `ttf` saves the stacks, then "
        "kills the process",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "killed": About(
        signature="SIGKILL, and no OOM counter increased; SIGTERM, SIGHUP, ...; SIGXCPU or SIGXFSZ "
        "(a limit of CPU time or file size)",
        does=f"restarts unchanged; after SIGXFSZ, {_ENDS.format(8)}",
        remedy="none for a signal from outside; raise the limit (`ulimit`) if a limit was reached",
    ),
    "vanished": About(
        signature="exit code 0, but the process did not report that it had finished; under "
        "`ttf guard`: Python did not shut down normally",
        does="restarts unchanged",
        remedy="none",
    ),
    "disk-full": About(
        signature="`No space left on device`, `Disk quota exceeded`; an incomplete write on a full disk",
        does=_ENDS.format(8),
        remedy="free some space, or use `--out` on another disk",
    ),
    "data-changed": About(
        signature="`ttf` detected that an input was truncated or overwritten; or a Python error, and an "
        "input has changed",
        does=_ENDS.format(3),
        remedy="restore the original file, then `ttf resume`",
    ),
    "non-finite": About(
        signature="a loss or gradient that is not finite; wrong results of the device",
        does=_ENDS.format(4),
        remedy="see the error: learning rate, data, `--precision fp32`",
    ),
    "python-error": About(
        signature="an uncaught Python exception",
        does="an error of `ttf` itself: ends with its exit code; any other: restarts; the same error twice "
        "in a row at the same place: ends",
        remedy="none",
    ),
    "device-lost": About(
        signature="a message of the driver: `CUDA error: ...`, Metal's `failed assertion`, a GPU hang",
        does=_UNCHANGED,
        remedy="`--device cpu`",
    ),
    "unknown": About(
        signature="an exit code without any message; invalid answers of a miner",
        does="restarts unchanged",
        remedy="if a miner gave invalid answers: another miner",
    ),
}


def table() -> str:
    """The table of docs/incidents.md."""
    rows = [
        f"| `{name}` | {about.signature} | {about.does} | {about.remedy} |"
        for name, about in CLASSES.items()
    ]
    head = [
        "| class | how it is recognised | what ttf does | what avoids it |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"
