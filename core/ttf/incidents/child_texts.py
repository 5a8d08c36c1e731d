"""Regular expressions for what parents and launchers write about a process below them that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ttf.incidents.error_texts import Pattern


def _child_died(signal: str, number: int, said: str, shown: str) -> Pattern:
    """Messages of torch, subprocess and launchers about a child process that a signal ended."""
    return Pattern(
        f"killed by signal: {said}",
        rf"died with <Signals\.{signal}: {number}>",
        rf"Signal {number} \({signal}\)",
        rf"\b{signal}\(-{number}\)",
        rf"terminated with signal {signal}\b",
        shown=(
            f"a message of the parent process about a child that {shown} (`killed by signal: "
            f"{said}`, ...)"
        ),
    )


# These name the signal. The other texts of CHILD_KILLED also occur after other ends.
CHILD_KILLED_FOR_SURE: Final = _child_died("SIGKILL", 9, "Killed", "was killed")
CHILD_KILLED: Final = Pattern(
    CHILD_KILLED_FOR_SURE,
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly",
    r"process (?:in the process pool )?was terminated abruptly",
    shown=(
        "a message of the parent process about a child that is gone (`killed by signal: "
        "Killed`, `exited unexpectedly`, ...)"
    ),
)
CHILD_BUS_ERROR: Final = Pattern(
    r"killed by signal: Bus error|\bSIGBUS\b", shown="a worker `killed by signal: Bus error`"
)
# A worker wrote why it could not begin, before its parent reported that it was gone.
WORKER_NOT_STARTED: Final = Pattern(
    r", in spawn_main\n(?:[ \t][^\n]*\n)*(?P<why>\w[\w.]*(?:Error|Exception)\b[^\n]*)"
    r"[\s\S]*process (?:in the process pool )?was terminated abruptly",
    shown="a traceback of a new worker (`in spawn_main`), and a parent whose worker is gone",
)
NO_MAIN_GUARD: Final = Pattern(
    r"before the\s+current process has finished its bootstrapping phase",
    shown="`start a new process before the current process has finished its bootstrapping phase`",
)
WORKER_GONE: Final = Pattern(
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly",
    r"process (?:in the process pool )?was terminated abruptly",
    r"multiprocessing/(?:connection|resource_sharer|queues)\.py[\s\S]{0,8000}"
    r"\n(?P<error_>ConnectionResetError|EOFError|BrokenPipeError)",
    shown=(
        "a message of the parent process about a worker that is gone (`exited unexpectedly`, ...)"
    ),
)
# Written by torch in the worker. What the parent writes afterwards depends on a race.
WORKER_SEGFAULT: Final = Pattern(
    r"ERROR: Unexpected segmentation fault encountered in worker",
    shown="`Unexpected segmentation fault encountered in worker`",
)
CHILD_SEGFAULT: Final = _child_died("SIGSEGV", 11, "Segmentation fault", "crashed")
CHILD_ABORT: Final = _child_died("SIGABRT", 6, "Aborted", "aborted")
# What faulthandler wrote about a child process, by class.
FATAL_IN_CHILD: Final[Mapping[str, Pattern]] = {
    name: Pattern(f"Fatal Python error: {said}", shown="`Fatal Python error: ...` of a child")
    for name, said in (
        ("segfault", "Segmentation fault"),
        ("abort", "Aborted"),
        ("bus-error", "Bus error"),
        ("illegal-instruction", "(?:Illegal instruction|Floating-point exception)"),
    )
}
