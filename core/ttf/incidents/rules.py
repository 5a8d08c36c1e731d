"""The table of rules: from evidence to a named cause. The first rule that matches decides.

If the text of a process and its signal disagree, the text decides. A text counts only with the ends
that it can cause: an old message in stderr explains nothing. `certain` marks rules whose evidence
proves the cause; the other rules say what happened, not why.
"""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import error_texts
from ttf.incidents.native_rules import ABORTS, NATIVE_RULES
from ttf.incidents.rule import COMMAND, EXIT, OURS, Rule, When

RULES: Final[tuple[Rule, ...]] = (
    # --- ended by us: nobody knows better ---------------------------------------------------------
    Rule(
        "hang",
        When(killed_by_us=("hang",), facts=("no-stacks",), processes=(COMMAND,)),
        "{who} hung: {reason}. It could not give its stacks, and was killed.",
    ),
    Rule(
        "hang",
        When(killed_by_us=("hang",)),
        "{who} hung {at}: {reason}. Its stacks were saved, then it was killed.",
    ),
    Rule(
        "memory-limit",
        When(killed_by_us=("memory",)),
        "{who} was about to hold more memory than it may: {reason}. It was ended {at} before the "
        "system would have killed it.",
        certain=True,
    ),
    Rule(
        "unknown",
        When(killed_by_us=("garbage",)),
        "{who} answered with something that is no answer: {reason}. It was ended {at}. In a miner "
        "that is being written, that is a fault of its code; in a proven one, memory that was "
        "overwritten or a library that prints into our pipe would look like this.",
    ),
    Rule(
        "killed",
        When(killed_by_us=("stop",)),
        "{who} was ended {at} because that was asked for: {reason}.",
        certain=True,
    ),
    # --- it said so itself -------------------------------------------------------------------------
    Rule(
        "omp-duplicate",
        When(text=error_texts.OMP_DUPLICATE, areas=("stderr",), signals=ABORTS, facts=("failed",)),
        "Two OpenMP runtimes met in one process: {second} was about to start where {first} already "
        "ran, and aborted {who_object}. Two libraries brought a copy each, usually torch and the "
        "library that searches for neighbours. They must run in separate processes.",
        certain=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.OPENBLAS_ALLOCATION, signals=(*ABORTS, "SIGSEGV"), facts=("failed",)),
        "OpenBLAS could not get memory and ended {who_object} {at}, with an exit code and no "
        "Python error.",
        certain=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.ALLOCATION, signals=ABORTS, facts=("failed",)),
        "{who} asked for memory {at} and did not get it.",
        certain=True,
    ),
    Rule(
        "alloc-failure",
        When(text=error_texts.UNCAUGHT_BAD_ALLOC, areas=("stderr",), signals=("SIGABRT",)),
        "C++ code{native} asked for memory {at}, did not get it, and nothing caught that.",
        certain=True,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.DISK_FULL, signals=ABORTS, facts=("failed",)),
        "The disk or a quota is full{full}: {who_object} could not write {at}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "disk-full",
        When(text=error_texts.SHORT_WRITE, signals=ABORTS, facts=("failed", "disk-low")),
        "A write of {who_object} came out short {at}, and the disk is full{full}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "device-lost",
        When(text=error_texts.DEVICE_LOST, signals=ABORTS, facts=("failed",)),
        "The device or its driver failed {at}; a process that met this cannot go on, a fresh one "
        "often can.",
    ),
    Rule(
        "data-changed",
        When(errors=("DataChanged",)),
        "An input changed while the run was reading it: {error} Its checkpoints are kept; to go "
        "on, put the file back as it was.",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "data-changed",
        When(signals=(EXIT,), facts=("failed", "traceback", "changed-files")),
        "{who} failed {at}, and {file} is not what it was when the run opened it (before: "
        "{was}; now: {now}). Wrong numbers read from it may well be why.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "non-finite",
        When(errors=("DeviceMistrusted",)),
        "The numbers are wrong: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        "non-finite",
        When(errors=("NumericFailure",)),
        "The numbers went wrong {at}: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        "non-finite",
        When(text=error_texts.NON_FINITE, signals=(EXIT,), facts=("failed",)),
        "The numbers went wrong {at}: a value that must be finite was not.",
        ends_with=ExitCode.NUMERIC,
    ),
    # --- killed for memory: only where a counter says so -------------------------------------------
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), facts=("oom-rose",), without=("oom-machine-wide",)),
        "The kernel killed {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), text=r"Killed process|oom-kill:", areas=("kernel",)),
        "The kernel killed {who_object} {at} because memory ran out, and says so in its log.",
        certain=True,
    ),
    Rule(
        "oom-kill",
        When(signals=("SIGKILL",), facts=("oom-rose",)),
        "{who} was killed {at} while the kernel was killing for want of memory. Its counter covers "
        "the whole machine, so that another process may have been meant.",
    ),
    Rule(
        "oom-kill",
        When(
            signals=(EXIT,),
            text=error_texts.CHILD_KILLED,
            facts=("failed", "oom-rose"),
            without=("oom-machine-wide",),
        ),
        "The kernel killed a child of {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        "killed",
        When(
            signals=(EXIT,),
            text=error_texts.CHILD_KILLED_FOR_SURE,
            facts=("failed",),
            processes=(COMMAND,),
        ),
        "Something killed a child of {who_object} (SIGKILL), and {who_object} gave up.",
    ),
    # --- crashes in native code ---------------------------------------------------------------------
    *NATIVE_RULES,
    # --- ended from outside --------------------------------------------------------------------------
    Rule(
        "killed",
        When(signals=("SIGXCPU",)),
        "{who} used up the processor time it was allowed (ulimit -t) {at}.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGXFSZ",)),
        "{who} wrote a file larger than it was allowed to (ulimit -f) {at}. The disk itself need "
        "not be full.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        "killed",
        When(signals=("SIGPIPE",)),
        "{who} wrote {at} to a pipe that nobody reads any more.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGSYS",)),
        "A sandbox killed {who_object} {at} for a system call it forbids.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGHUP",)),
        "{who} was ended {at} because its terminal was closed, or by somebody who sent that "
        "signal.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGKILL",), facts=("oom-counted",)),
        "Somebody killed {who_object} {at}: a person, a job scheduler, or a memory guard that is "
        "not the kernel's, such as earlyoom.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGKILL",)),
        "Something killed {who_object} {at}: a person, a job scheduler, or the system.",
    ),
    Rule(
        "killed",
        When(exit_codes=(120,), processes=OURS),
        "{who} left {at} because the process that watches over it was gone.",
        certain=True,
    ),
    Rule(
        "killed",
        When(exit_codes=(121,), processes=OURS),
        "{who} left {at} because the process that watches over it was stopped (SIGSTOP) and could "
        "not watch.",
        certain=True,
    ),
    Rule(
        "killed",
        When(signals=("SIGTERM", "SIGINT", "SIGQUIT")),
        "Somebody asked {who_object} to end {at} ({signal}), and it did so at once.",
        certain=True,
    ),
    # --- the rest --------------------------------------------------------------------------------------
    Rule(
        "vanished",
        When(facts=("exit-zero",), without=("finished",), processes=(COMMAND,)),
        "{who} ended with exit code 0, but Python was never shut down: something in it called "
        "os._exit(0), or a library called exit. Nobody can say from here whether its work was "
        "done; what it had not yet written is lost.",
    ),
    Rule(
        "vanished",
        When(facts=("exit-zero",), without=("finished",)),
        "{who} ended {at} with exit code 0 but without its final record: something in it called "
        "exit. That is not success.",
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback", "finished"), processes=(COMMAND,)),
        "{who} ended itself with exit code {code}, soon after it had written: {error} That error "
        "was caught, so that something else may have been the reason.",
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback")),
        "Python code raised an error {at} that nothing caught: {error}",
        certain=True,
        own_exit_code=True,
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed", "finished"), processes=(COMMAND,)),
        "{who} ended itself with exit code {code}: Python was shut down in order and no error was "
        "left uncaught. That is no crash; what the code means is for its author to say.",
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed",)),
        "{who} ended {at} with exit code {code} and left no word about why.",
    ),
    Rule(
        "unknown", When(signals=(EXIT,)), "{who} ended as it should; there is nothing to explain."
    ),
    Rule(
        "killed",
        When(),
        "{who} was ended {at} by {signal}, which somebody sent: no fault of its own raises it.",
    ),
)
