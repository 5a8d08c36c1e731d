"""Texts about the incident classes. docs/incidents.md is made from them (a test compares both)."""

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
_FIRST: Final = "restarts with a remedy, already after the first crash"
_ENDS: Final = "keeps the checkpoint and ends with exit code {}"
_SMALLER: Final = (
    "smaller micro-batches, but more of them per optimizer step. The number of samples per step "
    "stays the same, unless this needs more micro-batches than the device allows "
    "(`max_accumulate`). After a crash in mining or evaluation, `ttf` first lowers `memory.budget`"
)
_NATIVE: Final = "one after another: `--isolation process`, `--device cpu`, `--threads 1`"

CLASSES: Final[Mapping[str, About]] = {
    "omp-duplicate": About(
        signature="`OMP: Error #15: Initializing ..., but found ... already initialized`, SIGABRT",
        does=_FIRST,
        remedy="`--isolation process`, if isolation was off. If the miner process itself aborted: "
        "another miner. Never set `KMP_DUPLICATE_LIB_OK`: the variable only silences the check, "
        "and the fault remains",
    ),
    "segfault": About(
        signature="SIGSEGV; or an exit code, and a message of a library's own signal handler (`Caught signal "
        "11`)",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "abort": About(
        signature="SIGABRT or SIGTRAP, and no message of another class in this table",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "heap-corruption": About(
        signature="SIGABRT and a message of the allocator or of a check of memory: `double free`, "
        "`malloc(): corrupted ...`, `stack smashing detected`; or a report of AddressSanitizer",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "cxx-exception": About(
        signature="SIGABRT and `terminate called ...`", does=_UNCHANGED, remedy=_NATIVE
    ),
    "bus-error": About(
        signature="SIGBUS. If an input file was truncated or overwritten, the incident contains the name "
        "of the file",
        does=f"if an input file was truncated or overwritten: {_ENDS.format(3)}. If not: {_UNCHANGED}",
        remedy="if an input file was truncated or overwritten: restore the file. If not: the remedies of "
        "`segfault`",
    ),
    "illegal-instruction": About(
        signature="SIGILL, or SIGFPE (integer division by zero)",
        does=_UNCHANGED,
        remedy=f"build the library on this machine. The remedies of `ttf` are, {_NATIVE}",
    ),
    "oom-kill": About(
        signature="SIGKILL, and a kernel counter of OOM kills increased (cgroup `memory.events` or "
        "`memory.oom_control`, `/proc/vmstat`) or the kernel log reports that process",
        does=_FIRST,
        remedy=_SMALLER,
    ),
    "memory-limit": About(
        signature="`ttf` ended the process because the memory limit was almost reached",
        does=_FIRST,
        remedy=_SMALLER,
    ),
    "alloc-failure": About(
        signature="`MemoryError`, `std::bad_alloc`, `DefaultCPUAllocator`, or device out of memory; or "
        "another exception that says `not enough memory`; or exit code 1 and no traceback with `OpenBLAS error: Memory allocation still failed` or `libgomp: "
        "Thread creation failed`; or OpenBLAS gets no thread and interrupts the process itself (SIGINT)",
        does=_FIRST,
        remedy=_SMALLER,
    ),
    "hang": About(
        signature="no progress for longer than the time limit of the phase. `ttf` saves the stacks and "
        "then kills the process. Or: the process ended itself, because other processes of the training "
        "did not answer (`Watchdog caught collective operation timeout`), or no worker of its loader did "
        "(`DataLoader timed out`)",
        does=_UNCHANGED,
        remedy=_NATIVE,
    ),
    "killed": About(
        signature="SIGKILL, and no OOM counter increased; or SIGTERM, SIGHUP or a similar signal; or "
        "SIGXFSZ (a limit of file size was reached); or exit code 124 of the program `timeout`; or a "
        "message of the job scheduler, of torchrun (`SignalException: Process 7 got signal: 1`), or of a "
        "parent process whose worker is gone",
        does=f"restarts unchanged. Exception: after SIGXFSZ, {_ENDS.format(8)}",
        remedy="if a limit was reached: raise the limit (`ulimit`). If another program or a person sent "
        "the signal: no setting helps",
    ),
    "cpu-limit": About(
        signature="SIGXCPU; or SIGKILL, and the process had used about as much processor time as its "
        "hard limit allows",
        does="restarts unchanged: the limit applies to each process separately, so the new process "
        "starts with zero used time",
        remedy="raise the limit (`ulimit -t`)",
    ),
    "vanished": About(
        signature="exit code 0, but the process did not report that it had finished. Under `ttf guard`: "
        "exit code 0, but Python did not shut down normally",
        does="restarts unchanged",
        remedy="none",
    ),
    "disk-full": About(
        signature="`No space left on device`, `Disk quota exceeded`, or an incomplete write on a full disk",
        does=_ENDS.format(8),
        remedy="free some space, or choose a folder on another disk (`--out`)",
    ),
    "data-changed": About(
        signature="a check of `ttf` during the run found that an input file had changed (certain). Or: a "
        "Python error occurred, and afterwards `ttf` found that an input file had changed (the "
        "probable cause)",
        does=_ENDS.format(3),
        remedy="restore the original file, then run `ttf resume`",
    ),
    "non-finite": About(
        signature="a loss or gradient that is not finite, wrong results of the device, or an error message "
        "about NaN or infinity",
        does=_ENDS.format(4),
        remedy="read the error message first. Often one of these changes helps: a lower learning rate, "
        "data without NaN, `--precision fp32`",
    ),
    "python-error": About(
        signature="an uncaught Python exception",
        does="if `ttf` itself reports the error, such as a wrong setting: ends with the exit code of the "
        "error. After any other error: restarts unchanged. If an error occurs twice in a row at the "
        "same place: the run ends",
        remedy="none",
    ),
    "device-lost": About(
        signature="a message of the driver: `CUDA error: ...`, Metal's `failed assertion`, or a GPU hang",
        does=_UNCHANGED,
        remedy="`--device cpu`",
    ),
    "rendezvous-failed": About(
        signature="a message of torch.distributed that processes of a training did not find each other: "
        "`1/2 clients joined`, `EADDRINUSE`, `RendezvousTimeoutError`",
        does="restarts unchanged",
        remedy="none",
    ),
    "peer-lost": About(
        signature="a message of gloo or NCCL that another process of the training is gone: `Connection "
        "closed by peer`, `ncclRemoteError`; or another machine of the run closed its connection. Never "
        "the cause, if any other is found",
        does="restarts unchanged",
        remedy="none",
    ),
    "network-partition": About(
        signature="another machine of the run does not answer, and no trainer ended by itself",
        does="restarts unchanged, when all machines can talk to each other again",
        remedy="if the network often pauses: a longer `scale.exchange_timeout_s`",
    ),
    "store-lost": About(
        signature="a message of torch.distributed that its store is gone: `failed to recv, got 0 bytes`",
        does="restarts unchanged",
        remedy="none",
    ),
    "wrong-interface": About(
        signature="a message of gloo or NCCL that there is no such network interface: `Unable to find "
        "address for: eth7`",
        does=_ENDS.format(2),
        remedy="the right name (`scale.interface`), or none: `ttf` then takes the one that reaches node 0",
    ),
    "clock-skew": About(
        signature="a message that the clocks of two machines differ: `RequestTimeTooSkewed`, `certificate "
        "is not yet valid`",
        does="restarts unchanged",
        remedy="set the clock (NTP). `ttf` itself compares no clocks of different machines",
    ),
    "ranks-disagree": About(
        signature="the ranks of a run have different configurations or data; or they computed different "
        "numbers",
        does=f"if configurations or data differ: {_ENDS.format(2)}. If numbers differ: restarts unchanged",
        remedy="the same version, options and files on all machines; if numbers differ: test the memory "
        "of the machine that is named",
    ),
    "straggler": About(
        signature="the other ranks waited for one that was alive but much slower, longer than "
        "`scale.exchange_timeout_s`. `ttf` saves its stacks and then ends it",
        does="restarts unchanged",
        remedy="a longer `scale.exchange_timeout_s`, or fewer ranks on that machine",
    ),
    "unknown": About(
        signature="an exit code, and no known message; or invalid answers of a miner",
        does="restarts unchanged",
        remedy="if a miner gave invalid answers: use another miner",
    ),
}


def table() -> str:
    """Returns the table of docs/incidents.md."""
    rows = [
        f"| `{name}` | {about.signature} | {about.does} | {about.remedy} |"
        for name, about in CLASSES.items()
    ]
    head = [
        "| class | how it is recognised | what ttf does | what avoids it |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"
