"""The table of rules: from evidence to a named cause. The first rule that matches decides.

If the text of a process and its signal disagree, the text decides. A text counts only with the ends
that it can cause: an old message in stderr explains nothing. `certain` marks rules whose evidence
proves the cause; the other rules say what happened, not why.
"""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import child_texts, error_texts
from ttf.incidents.exit_rules import EXIT_RULES
from ttf.incidents.hang_rules import HANGS_THAT_ENDED_THEMSELVES, HANGS_WE_ENDED
from ttf.incidents.limit_rules import LIMIT_RULES
from ttf.incidents.native_rules import ABORTS, NATIVE_RULES
from ttf.incidents.peer_rules import PEERS_OF_A_RUN, PEERS_OF_OTHERS
from ttf.incidents.remedies import IF_OTHERS_HELD_IT
from ttf.incidents.rule import COMMAND, EXIT, OURS, Rule, When

_PIPES_CLOSED: Final = (
    "{who} lost the connection to its supervising process {at}, because code in it closed file "
    "descriptors that it had not opened."
)

_TWO_RUNTIMES: Final = (
    "One process loaded two OpenMP runtimes: {first} was running when {second} started. The "
    "second runtime aborted {who_object}. Two libraries contain one copy each, usually torch "
    "and the library of the miner. Run the two libraries in separate processes."
)

_REFUSED: Final = "The kernel killed no process: it refused the request for memory."

_DEVICE_MEMORY: Final = (
    "The device had no free memory left for {who_object} {at}. This is the memory of the device (GPU), "
    "not that of the machine: the kernel refused nothing and killed no process."
)

RULES: Final[tuple[Rule, ...]] = (
    # --- ended by us: nobody knows better ---------------------------------------------------------
    *HANGS_WE_ENDED,
    *PEERS_OF_A_RUN,
    Rule(
        "memory-limit",
        When(killed_by_us=("memory",), processes=(COMMAND,)),
        "{who} exceeded its memory limit: {reason}. ttf ended it {at}, before the system could kill "
        "it.",
        certain=True,
    ),
    Rule(
        "memory-limit",
        When(killed_by_us=("memory",)),
        "{who} almost reached its memory limit: {reason}. ttf ended it {at}, before the system "
        "could kill it.",
        certain=True,
    ),
    Rule(
        "unknown",
        When(killed_by_us=("garbage",)),
        "{who} gave an invalid answer: {reason}. ttf ended it {at}. In a new miner, the cause is "
        "probably an error in its code. In a tested miner, the cause can be overwritten memory, "
        "or a library that writes into the pipe of ttf.",
    ),
    Rule(
        "killed",
        When(killed_by_us=("stop",)),
        "ttf ended {who_object} {at} on request: {reason}.",
        certain=True,
    ),
    # --- it said so itself -------------------------------------------------------------------------
    Rule(
        "omp-duplicate",
        When(
            text=error_texts.OMP_DUPLICATE,
            areas=("stderr",),
            signals=ABORTS,
            facts=("failed", "several-openmp"),
        ),
        _TWO_RUNTIMES,
        certain=True,
    ),
    Rule(
        "omp-duplicate",
        When(text=error_texts.OMP_DUPLICATE, areas=("stderr",), signals=ABORTS, facts=("failed",)),
        _TWO_RUNTIMES,
        at_once=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.OPENBLAS_ALLOCATION, signals=(*ABORTS, "SIGSEGV"), facts=("failed",)),
        "OpenBLAS could not get memory {at}. It ended {who_object} with an exit code and without "
        "a Python error. " + _REFUSED,
        at_once=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.DEVICE_MEMORY, signals=ABORTS, facts=("failed", "refused-memory")),
        _DEVICE_MEMORY,
        certain=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.DEVICE_MEMORY, signals=ABORTS, facts=("failed",)),
        _DEVICE_MEMORY,
        at_once=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.ALLOCATION, signals=ABORTS, facts=("failed",)),
        "{who} could not get the memory that it needed {at}. " + _REFUSED,
        at_once=True,
    ),
    *LIMIT_RULES,
    Rule(
        "alloc-failure",
        When(text=error_texts.UNCAUGHT_BAD_ALLOC, areas=("stderr",), signals=("SIGABRT",)),
        "C++ code{native} could not get the memory that it needed {at}, and did not catch the "
        "exception. " + _REFUSED,
        at_once=True,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.DISK_FULL, signals=ABORTS, facts=("failed", "disk-low")),
        "The disk or a quota is full{full}: {who_object} could not write {at}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.DISK_FULL, signals=ABORTS, facts=("failed",)),
        "{who} reported that a disk or a quota is full {at}. Now ttf finds free space in every "
        "folder that it knows. Other limits have the same message: of shared memory, of semaphores, of "
        "watched files (fs.inotify.max_user_watches).",
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.NO_TEMPORARY_FOLDER, signals=(EXIT,), facts=("failed", "disk-low")),
        "{who} found no folder that takes a temporary file {at}, and a disk is full{full}. Python tries "
        "TMPDIR, /tmp, /var/tmp, /usr/tmp and the current folder, and does not say why each one failed.",
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.SHORT_WRITE, signals=ABORTS, facts=("failed", "disk-low")),
        "{who} could write only a part of a file {at}: the disk is full{full}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "device-lost",
        When(text=error_texts.DEVICE_LOST, signals=ABORTS, facts=("failed",)),
        "The device or its driver failed {at}. The process could not continue. A new process "
        "often can.",
    ),
    Rule(
        "data-changed",
        When(errors=("DataChanged",)),
        "An input file changed during the run: {error} The checkpoints are kept. To continue the "
        "run, restore the original file.",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "data-changed",
        When(signals=(EXIT,), facts=("failed", "traceback", "changed-files")),
        "{who} failed {at}, and {file} has changed since the run opened it (before: {was}; now: "
        "{now}). Wrong data from this file is the probable cause.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "non-finite",
        When(errors=("DeviceMistrusted",)),
        "The device gave wrong numbers: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        "non-finite",
        When(errors=("NumericFailure",)),
        "The training gave invalid numbers {at}: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        "non-finite",
        When(text=error_texts.NON_FINITE, signals=(EXIT,), facts=("failed",)),
        "{who} met invalid numbers {at}: a value is NaN or infinite. It wrote: {line}",
        ends_with=ExitCode.NUMERIC,
    ),
    *HANGS_THAT_ENDED_THEMSELVES,
    # --- killed for memory: only where a counter says so -------------------------------------------
    Rule(
        "oom-kill",
        When(
            signals=("SIGKILL",),
            facts=("oom-rose", "far-from-limit"),
            without=("oom-machine-wide",),
        ),
        "The kernel killed {who_object} {at} because memory ran out. At each measurement, it and its "
        "processes held at most {held} of {limit}: either they grew within seconds, or the rest was used by "
        "other processes of the same group, or by files in memory (/dev/shm or another tmpfs), which "
        "count as memory of the group.",
        certain=True,
        advice=IF_OTHERS_HELD_IT,
    ),
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), facts=("oom-rose",), without=("oom-machine-wide",)),
        "The kernel killed {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), text=r"Killed process|oom-kill:", areas=("kernel",)),
        "The kernel killed {who_object} {at} because memory ran out. The kernel log contains this "
        "kill.",
        certain=True,
    ),
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), facts=("oom-rose",)),
        "{who} was killed {at} while the machine was short of memory. The counter of OOM kills "
        "counts all processes of the machine, so the kernel possibly killed another process.",
    ),
    Rule(
        "oom-kill",
        When(
            signals=(EXIT,),
            text=child_texts.CHILD_KILLED,
            facts=("failed", "oom-rose"),
            without=("oom-machine-wide",),
        ),
        "The kernel killed a child process of {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        "oom-kill",
        When(
            signals=(EXIT,),
            text=r"Killed process|oom-kill:",
            areas=("kernel",),
            facts=("failed", "child-killed"),
        ),
        "The kernel killed a child process of {who_object} {at} because memory ran out. The kernel log "
        "contains this kill.",
        certain=True,
    ),
    Rule(
        "killed",
        When(
            signals=(EXIT,),
            text=child_texts.CHILD_KILLED_FOR_SURE,
            facts=("failed",),
            processes=(COMMAND,),
        ),
        "A child process of {who_object} was killed by SIGKILL. Then {who_object} ended.",
    ),
    Rule(
        "killed",
        When(text=error_texts.SIGNAL_RAISED, signals=(EXIT,), facts=("failed", "traceback")),
        "{signal} came to a launcher (torchrun), which then ended the training and raised an exception: "
        "a person or a program sent it, or, for SIGHUP, a terminal or an SSH connection was closed.",
        advice=("If a terminal was closed: start the command in tmux or screen, or with setsid.",),
    ),
    Rule(
        "killed",
        When(
            signals=("SIGTERM", "SIGKILL", EXIT),
            text=error_texts.SCHEDULER,
            areas=("words",),
            facts=("failed",),
            without=("finished", "traceback"),
        ),
        "The job scheduler ended {who_object} {at}. It wrote: {why}",
    ),
    # --- crashes in native code ---------------------------------------------------------------------
    *NATIVE_RULES,
    # --- other processes of the same training -------------------------------------------------------
    *PEERS_OF_OTHERS,
    # --- ended from outside --------------------------------------------------------------------------
    Rule(
        "cpu-limit",
        When(signals=("SIGXCPU",), facts=("cpu-near",)),
        "{who} reached its limit of processor time (ulimit -t) {at}.",
        certain=True,
    ),
    Rule(
        "cpu-limit",
        When(signals=("SIGXCPU",)),
        "SIGXCPU ended {who_object} {at}. The kernel sends this signal at the limit of processor "
        "time (ulimit -t); some job schedulers send it too.",
    ),
    Rule(
        "cpu-limit",
        When(signals=("SIGKILL",), facts=("cpu-near",)),
        "SIGKILL ended {who_object} {at}. The process had used about as much processor time as "
        "its hard limit allows (ulimit -Ht). At this limit, the kernel sends SIGKILL.",
    ),
    Rule(
        "killed",
        When(signals=("SIGXFSZ",)),
        "SIGXFSZ ended {who_object} {at}. The kernel sends this signal at the limit of the file "
        "size (ulimit -f). The disk can still have free space.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "killed",
        When(signals=("SIGPIPE",)),
        "SIGPIPE ended {who_object} {at}. The kernel sends this signal to a process that writes "
        "to a pipe without a reader.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGSYS",)),
        "SIGSYS ended {who_object} {at}. The kernel sends this signal after a system call that a "
        "sandbox (seccomp) forbids.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGHUP",)),
        "SIGHUP ended {who_object} {at}: its terminal was closed, or a program or a person sent "
        "the signal.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGKILL",), facts=("oom-counted",)),
        "SIGKILL ended {who_object} {at}. The sender was a person, a job scheduler, a memory guard "
        "such as earlyoom, {who_object} itself, or the system for another reason than memory.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGKILL",)),
        "SIGKILL ended {who_object} {at}. The sender was a person, a job scheduler, or the system.",
    ),
    Rule(
        "killed",
        When(exit_codes=(120,), processes=OURS),
        "{who} ended itself {at}. Its exit code means that its supervising process had ended.",
    ),
    Rule(
        "killed",
        When(exit_codes=(121,), processes=OURS),
        "{who} ended itself {at}. Its exit code means that its supervising process was stopped "
        "(SIGSTOP).",
    ),
    Rule(
        "unknown",
        When(exit_codes=(122,), processes=OURS),
        _PIPES_CLOSED,
    ),
    Rule(
        "unknown",
        When(exit_codes=(122,), text=error_texts.PIPES_CLOSED, areas=("stderr",)),
        _PIPES_CLOSED,
    ),
    Rule(
        "killed",
        When(signals=("SIGTERM", "SIGQUIT")),
        "{signal} ended {who_object} {at}: a program or a person sent it, or {who_object} sent it "
        "to itself.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGINT",)),
        "{who} was interrupted {at}: Ctrl-C was pressed, a program or a person sent SIGINT, or "
        "its own code raised KeyboardInterrupt. Python ends in the same way after each of these.",
    ),
    # --- the rest --------------------------------------------------------------------------------------
    *EXIT_RULES,
    Rule(
        "killed",
        When(),
        "{signal} ended {who_object} {at}. A crash does not cause this signal: a program, a person, "
        "or a timer of {who_object} sent it.",
    ),
)
