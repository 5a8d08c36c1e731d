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


_UNCHANGED: Final = "restarts unchanged; the third time at one place, with a remedy"
_AT_ONCE: Final = "restarts with the remedy at once"
_ENDS: Final = "keeps the checkpoint and ends with exit code {}"
_SMALLER: Final = (
    "the same optimizer step in smaller micro-batches; in mining and evaluation first half of "
    "`memory.budget`"
)
_NATIVE: Final = "`--isolation process`; then `--device cpu`, shallower accumulation, one thread"

CLASSES: Final[Mapping[str, About]] = {
    "omp-duplicate": About(
        signature="`OMP: Error #15: Initializing ..., but found ... already initialized`, SIGABRT",
        does=_AT_ONCE,
        remedy="`--isolation process`; in the miner's own process another miner. Never "
        "`KMP_DUPLICATE_LIB_OK`: it silences the check, not the fault",
    ),
    "segfault": About(signature="SIGSEGV", does=_UNCHANGED, remedy=_NATIVE),
    "abort": About(
        signature="SIGABRT or SIGTRAP, and none of the words below",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "heap-corruption": About(
        signature="SIGABRT and the allocator's words: `double free`, `malloc(): corrupted ...`",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "cxx-exception": About(
        signature="SIGABRT and `terminate called ...`", does=_UNCHANGED, remedy=_NATIVE
    ),
    "bus-error": About(
        signature="SIGBUS; with the input that was cut or rewritten, where one was",
        does=f"input changed: {_ENDS.format(3)}; else {_UNCHANGED}",
        remedy="put the file back; else as `segfault`",
    ),
    "illegal-instruction": About(
        signature="SIGILL; SIGFPE (an integer divided by zero)",
        does=_UNCHANGED,
        remedy=f"build the library on this machine; {_NATIVE}",
    ),
    "oom-kill": About(
        signature="SIGKILL and a kernel counter of memory kills that rose (cgroup `memory.events`, "
        "`memory.oom_control`, `/proc/vmstat`), or the kernel's log naming the process",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "memory-limit": About(
        signature="our own guard ended it before the kernel would have",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "alloc-failure": About(
        signature="`MemoryError`, `std::bad_alloc`, `DefaultCPUAllocator`, a device out of memory; "
        "exit code 1 with `OpenBLAS error: Memory allocation still failed` and no traceback",
        does=_AT_ONCE,
        remedy=_SMALLER,
    ),
    "hang": About(
        signature="no sign of life for longer than allowed in that phase; stacks saved, then killed",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "killed": About(
        signature="SIGKILL with no counter risen; SIGTERM, SIGHUP, ...; a limit of processor time "
        "or file size",
        does="restarts unchanged",
        remedy="none: somebody did it",
    ),
    "vanished": About(
        signature="exit code 0 without the final record", does="restarts unchanged", remedy="none"
    ),
    "disk-full": About(
        signature="`No space left on device`, a quota; a short write while the disk is full",
        does=_ENDS.format(8),
        remedy="free some space, or `--out` on another disk",
    ),
    "data-changed": About(
        signature="ttf's own check found an input cut or rewritten; an error after an input changed",
        does=_ENDS.format(3),
        remedy="put the file back as it was, then `ttf resume`",
    ),
    "non-finite": About(
        signature="a loss or gradient that is not finite; numbers the device got wrong",
        does=_ENDS.format(4),
        remedy="see the error: learning rate, data, `--precision fp32`",
    ),
    "python-error": About(
        signature="a Python exception that nothing caught",
        does="ends with the error's own exit code where it has one, else restarts",
        remedy="none",
    ),
    "device-lost": About(
        signature="the driver's words: `CUDA error: ...`, Metal's `failed assertion`, a GPU hang",
        does=_UNCHANGED,
        remedy="`--device cpu`",
    ),
    "unknown": About(
        signature="an exit code without a word; answers that are garbage",
        does="restarts unchanged",
        remedy="a miner that answers garbage: another miner",
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
