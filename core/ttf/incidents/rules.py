"""THE TABLE: from evidence to a named cause. The first row that fits is the answer.

Rows are data. What a process wrote decides over the signal it ended with, where both speak; words
count only with the ends they can lead to, because what somebody wrote an hour ago explains nothing.
`certain` is for rows whose evidence names the cause; all others say what happened, not why.
"""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import words
from ttf.incidents.rule import COMMAND, EXIT, OURS, Rule, When

_ABORTS: Final = ("SIGABRT", "SIGTRAP", EXIT)

RULES: Final[tuple[Rule, ...]] = (
    # --- ended by us: nobody knows better ---------------------------------------------------------
    Rule(
        name="hang",
        when=When(killed_by_us=("hang",), facts=("no-stacks",), processes=(COMMAND,)),
        explanation="{who} hung: {reason}. It could not give its stacks, and was killed.",
    ),
    Rule(
        name="hang",
        when=When(killed_by_us=("hang",)),
        explanation="{who} hung {at}: {reason}. Its stacks were saved, then it was killed.",
    ),
    Rule(
        name="memory-limit",
        when=When(killed_by_us=("memory",)),
        explanation="{who} was about to hold more memory than it may: {reason}. It was ended {at} "
        "before the system would have killed it.",
        certain=True,
    ),
    Rule(
        name="unknown",
        when=When(killed_by_us=("garbage",)),
        explanation="{who} answered with something that is no answer: {reason}. It was ended {at}. "
        "In a miner that is being written, that is a fault of its code; in a proven one, memory that "
        "was overwritten or a library that prints into our pipe would look like this.",
    ),
    Rule(
        name="killed",
        when=When(killed_by_us=("stop",)),
        explanation="{who} was ended {at} because that was asked for: {reason}.",
        certain=True,
    ),
    # --- it said so itself -------------------------------------------------------------------------
    Rule(
        name="omp-duplicate",
        when=When(text=words.OMP_DUPLICATE, areas=("stderr",), signals=_ABORTS, facts=("failed",)),
        explanation="Two OpenMP runtimes met in one process: {second} was about to start where "
        "{first} already ran, and aborted {who_object}. Two libraries brought a copy each, usually "
        "torch and the library that searches for neighbours. They must run in separate processes.",
        certain=True,
    ),
    Rule(
        name="alloc-failure",
        when=When(text=words.OPENBLAS_ALLOCATION, signals=(*_ABORTS, "SIGSEGV"), facts=("failed",)),
        explanation="OpenBLAS could not get memory and ended {who_object} {at}, with an exit code "
        "and no Python error.",
        certain=True,
    ),
    Rule(
        name="alloc-failure",
        when=When(text=words.ALLOCATION, signals=_ABORTS, facts=("failed",)),
        explanation="{who} asked for memory {at} and did not get it.",
        certain=True,
    ),
    Rule(
        name="alloc-failure",
        when=When(text=words.UNCAUGHT_BAD_ALLOC, areas=("stderr",), signals=("SIGABRT",)),
        explanation="C++ code{native} asked for memory {at}, did not get it, and nothing caught that.",
        certain=True,
    ),
    Rule(
        name="disk-full",
        when=When(text=words.DISK_FULL, signals=_ABORTS, facts=("failed",)),
        explanation="The disk or a quota is full{full}: {who_object} could not write {at}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        name="disk-full",
        when=When(text=words.SHORT_WRITE, signals=_ABORTS, facts=("failed", "disk-low")),
        explanation="A write of {who_object} came out short {at}, and the disk is full{full}.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        name="device-lost",
        when=When(text=words.DEVICE_LOST, signals=_ABORTS, facts=("failed",)),
        explanation="The device or its driver failed {at}; a process that met this cannot go on, a "
        "fresh one often can.",
    ),
    Rule(
        name="data-changed",
        when=When(errors=("DataChanged",)),
        explanation="An input changed while the run was reading it: {error} Its checkpoints are "
        "kept; to go on, put the file back as it was.",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        name="data-changed",
        when=When(signals=(EXIT,), facts=("failed", "traceback", "changed-files")),
        explanation="{who} failed {at}, and {file} is not what it was when the run opened it "
        "({was}; now {now}). Wrong numbers read from it may well be why.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        name="non-finite",
        when=When(errors=("DeviceMistrusted",)),
        explanation="The numbers are wrong: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        name="non-finite",
        when=When(errors=("NumericFailure",)),
        explanation="The numbers went wrong {at}: {error}",
        certain=True,
        ends_with=ExitCode.NUMERIC,
    ),
    Rule(
        name="non-finite",
        when=When(text=words.NON_FINITE, signals=(EXIT,), facts=("failed",)),
        explanation="The numbers went wrong {at}: a value that must be finite was not.",
        ends_with=ExitCode.NUMERIC,
    ),
    # --- killed for memory: only where a counter says so -------------------------------------------
    Rule(
        name="oom-kill",
        when=When(signals=("SIGKILL",), facts=("oom-rose",), without=("oom-machine-wide",)),
        explanation="The kernel killed {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        name="oom-kill",
        when=When(signals=("SIGKILL",), text=r"Killed process|oom-kill:", areas=("kernel",)),
        explanation="The kernel killed {who_object} {at} because memory ran out, and says so in its "
        "log.",
        certain=True,
    ),
    Rule(
        name="oom-kill",
        when=When(signals=("SIGKILL",), facts=("oom-rose",)),
        explanation="{who} was killed {at} while the kernel was killing for want of memory. Its "
        "counter covers the whole machine, so that another process may have been meant.",
    ),
    Rule(
        name="oom-kill",
        when=When(
            signals=(EXIT,),
            text=words.CHILD_KILLED,
            facts=("failed", "oom-rose"),
            without=("oom-machine-wide",),
        ),
        explanation="The kernel killed a child of {who_object} {at} because memory ran out.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(
            signals=(EXIT,),
            text=words.CHILD_KILLED_FOR_SURE,
            facts=("failed",),
            processes=(COMMAND,),
        ),
        explanation="Something killed a child of {who_object} (SIGKILL), and {who_object} gave up.",
    ),
    # --- crashes in native code ---------------------------------------------------------------------
    Rule(
        name="bus-error",
        when=When(text=words.CHILD_BUS_ERROR, signals=_ABORTS, facts=("failed", "cut-file")),
        explanation="A child of {who_object} read a mapped file {at} whose end is gone: {file} was "
        "cut ({was}; now {now}).",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        name="bus-error",
        when=When(text=words.SHM_SHORT, signals=(*_ABORTS, "SIGBUS"), facts=("failed",)),
        explanation="Shared memory ran out {at}: a process touched a page that /dev/shm had no room "
        "for{full}.",
    ),
    Rule(
        name="bus-error",
        when=When(signals=("SIGBUS",), facts=("cut-file",)),
        explanation="{who} read a mapped file {at} whose end is gone: {file} was cut ({was}; now "
        "{now}).",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        name="bus-error",
        when=When(signals=("SIGBUS",), facts=("changed-files",)),
        explanation="{who} touched a mapped page {at} that had no file behind it, and {file} was "
        "written anew ({was}; now {now}): a file that is rewritten is empty for a moment.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        name="bus-error",
        when=When(signals=("SIGBUS",), facts=("disk-low",)),
        explanation="{who} touched a mapped page {at} that the file system could not provide: it is "
        "full{full}. Through a map, a full disk is this signal, not an error.",
    ),
    Rule(
        name="bus-error",
        when=When(signals=("SIGBUS",)),
        explanation="{who} touched memory{native} {at} that has nothing behind it: a mapped file "
        "that was cut, a disk that does not answer, or a damaged pointer. None of its inputs that "
        "are known here has changed.",
    ),
    Rule(
        name="heap-corruption",
        when=When(text=words.HEAP, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        explanation="The memory allocator found its own records overwritten{native} {at} and ended "
        "{who_object}. Native code wrote where it must not, perhaps long before: the library that "
        "is named here need not be the one to blame.",
    ),
    Rule(
        name="cxx-exception",
        when=When(text=words.CXX, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        explanation="C++ code{native} raised an exception {at} that nothing caught, which ends a "
        "process.",
    ),
    Rule(
        name="segfault",
        when=When(signals=("SIGSEGV",)),
        explanation="{who} touched memory that is not its own{native} {at}. Python cannot do that: "
        "it was native code.",
    ),
    Rule(
        name="illegal-instruction",
        when=When(signals=("SIGILL",)),
        explanation="The processor does not know an instruction{native} that {who_object} ran {at}: "
        "as a rule a library was built for another processor. hnswlib is built for the one it is "
        "installed on; HNSWLIB_NO_NATIVE=1 at its installation builds it for all.",
    ),
    Rule(
        name="illegal-instruction",
        when=When(signals=("SIGFPE",)),
        explanation="The processor refused to calculate{native} {at}: as a rule native code divided "
        "an integer by zero. Floating-point numbers cannot cause this.",
    ),
    Rule(
        name="abort",
        when=When(
            signals=("SIGABRT", "SIGTRAP"),
            text=words.FATAL_REASON,
            areas=("words", "stderr", "faulthandler"),
        ),
        explanation="{who} ended itself {at}: {why}",
    ),
    Rule(
        name="abort",
        when=When(signals=("SIGABRT", "SIGTRAP")),
        explanation="{who} or a library in it{native} found that it cannot go on and called abort "
        "{at}, without a word about why; somebody who sends that signal looks the same.",
    ),
    Rule(
        name="segfault",
        when=When(text=words.CHILD_SEGFAULT, signals=(EXIT,), facts=("failed",)),
        explanation="A child of {who_object} touched memory that is not its own {at}.",
    ),
    Rule(
        name="abort",
        when=When(text=words.CHILD_ABORT, signals=(EXIT,), facts=("failed",)),
        explanation="A child of {who_object} called abort {at}.",
    ),
    *(
        Rule(
            name=name,
            when=When(
                text=text,
                areas=("faulthandler",),
                signals=(EXIT,),
                facts=("failed", "child-crashed"),
                processes=(COMMAND,),
            ),
            explanation="A child of {who_object} crashed in native code, and {who_object} gave up "
            "a moment later.",
        )
        for name, text in words.FATAL_IN_CHILD.items()
    ),
    Rule(
        name="segfault",
        when=When(
            text=words.WORKER_SEGFAULT,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
            without=("finished",),
        ),
        explanation="A worker of {who_object} touched memory that is not its own {at}, and its "
        "parent gave up.",
    ),
    Rule(
        name="killed",
        when=When(
            text=words.WORKER_GONE,
            signals=(EXIT,),
            facts=("failed", "traceback"),
            processes=(COMMAND,),
        ),
        explanation="A worker process of {who_object} was suddenly gone, without a word, and "
        "{who_object} gave up. A crash in native code would have left stacks, as a rule: more "
        "likely something killed it, or it left by itself (os._exit).",
    ),
    # --- ended from outside --------------------------------------------------------------------------
    Rule(
        name="killed",
        when=When(signals=("SIGXCPU",)),
        explanation="{who} used up the processor time it was allowed (ulimit -t) {at}.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGXFSZ",)),
        explanation="{who} wrote a file larger than it was allowed to (ulimit -f) {at}. The disk "
        "itself need not be full.",
        certain=True,
        ends_with=ExitCode.STORAGE,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGPIPE",)),
        explanation="{who} wrote {at} to a pipe that nobody reads any more.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGSYS",)),
        explanation="A sandbox killed {who_object} {at} for a system call it forbids.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGHUP",)),
        explanation="{who} was ended {at} because its terminal was closed, or by somebody who sent "
        "that signal.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGKILL",), facts=("oom-counted",)),
        explanation="Somebody killed {who_object} {at}: a person, a job scheduler, or a memory "
        "guard that is not the kernel's, such as earlyoom.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGKILL",)),
        explanation="Something killed {who_object} {at}: a person, a job scheduler, or the system.",
    ),
    Rule(
        name="killed",
        when=When(exit_codes=(120,), processes=OURS),
        explanation="{who} left {at} because the process that watches over it was gone.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(exit_codes=(121,), processes=OURS),
        explanation="{who} left {at} because the process that watches over it was stopped "
        "(SIGSTOP) and could not watch.",
        certain=True,
    ),
    Rule(
        name="killed",
        when=When(signals=("SIGTERM", "SIGINT", "SIGQUIT")),
        explanation="Somebody asked {who_object} to end {at} ({signal}), and it did so at once.",
        certain=True,
    ),
    # --- the rest --------------------------------------------------------------------------------------
    Rule(
        name="vanished",
        when=When(facts=("exit-zero",), without=("finished",), processes=(COMMAND,)),
        explanation="{who} ended with exit code 0, but Python was never shut down: something in it "
        "called os._exit(0), or a library called exit. Nobody can say from here whether its work "
        "was done; what it had not yet written is lost.",
    ),
    Rule(
        name="vanished",
        when=When(facts=("exit-zero",), without=("finished",)),
        explanation="{who} ended {at} with exit code 0 but without its final record: something in "
        "it called exit. That is not success.",
    ),
    Rule(
        name="python-error",
        when=When(signals=(EXIT,), facts=("failed", "traceback", "finished"), processes=(COMMAND,)),
        explanation="{who} ended itself with exit code {code}, soon after it had written: {error} "
        "That error was caught, so that something else may have been the reason.",
    ),
    Rule(
        name="python-error",
        when=When(signals=(EXIT,), facts=("failed", "traceback")),
        explanation="Python code raised an error {at} that nothing caught: {error}",
        certain=True,
        own_exit_code=True,
    ),
    Rule(
        name="unknown",
        when=When(signals=(EXIT,), facts=("failed", "finished"), processes=(COMMAND,)),
        explanation="{who} ended itself with exit code {code}: Python was shut down in order and no "
        "error was left uncaught. That is no crash; what the code means is for its author to say.",
    ),
    Rule(
        name="unknown",
        when=When(signals=(EXIT,), facts=("failed",)),
        explanation="{who} ended {at} with exit code {code} and left no word about why.",
    ),
    Rule(
        name="unknown",
        when=When(signals=(EXIT,)),
        explanation="{who} ended as it should; there is nothing to explain.",
    ),
    Rule(
        name="killed",
        when=When(),
        explanation="{who} was ended {at} by {signal}, which somebody sent: no fault of its own "
        "raises it.",
    ),
)
