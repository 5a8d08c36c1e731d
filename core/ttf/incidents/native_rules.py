"""The rules for crashes in native code. `rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import error_texts
from ttf.incidents.rule import COMMAND, EXIT, Rule, When

ABORTS: Final = ("SIGABRT", "SIGTRAP", EXIT)

NATIVE_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "bus-error",
        When(text=error_texts.CHILD_BUS_ERROR, signals=ABORTS, facts=("failed", "cut-file")),
        "A child of {who_object} read a mapped file {at} whose end is gone: {file} was cut (before: "
        "{was}; now: {now}).",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(text=error_texts.SHM_SHORT, signals=(*ABORTS, "SIGBUS"), facts=("failed",)),
        "Shared memory ran out {at}: a process touched a page that /dev/shm had no room for{full}.",
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("cut-file",)),
        "{who} read a mapped file {at} whose end is gone: {file} was cut (before: {was}; now: "
        "{now}).",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("changed-files",)),
        "{who} touched a mapped page {at} that had no file behind it, and {file} was written anew "
        "(before: {was}; now: {now}): a file that is rewritten is empty for a moment.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("disk-low",)),
        "{who} touched a mapped page {at} that the file system could not provide: it is "
        "full{full}. Through a map, a full disk is this signal, not an error.",
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",)),
        "{who} touched memory{native} {at} that has nothing behind it: a mapped file that was cut, "
        "a disk that does not answer, or a damaged pointer. None of its inputs that are known here "
        "has changed.",
    ),
    Rule(
        "heap-corruption",
        When(text=error_texts.HEAP, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        "The memory allocator found its own records overwritten{native} {at} and ended "
        "{who_object}. Native code wrote where it must not, perhaps long before: the library that "
        "is named here need not be the one to blame.",
    ),
    Rule(
        "cxx-exception",
        When(text=error_texts.CXX, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        "C++ code{native} raised an exception {at} that nothing caught, which ends a process.",
    ),
    Rule(
        "segfault",
        When(signals=("SIGSEGV",)),
        "{who} touched memory that is not its own{native} {at}. Python cannot do that: it was "
        "native code.",
    ),
    Rule(
        "illegal-instruction",
        When(signals=("SIGILL",)),
        "The processor does not know an instruction{native} that {who_object} ran {at}: as a rule "
        "a library was built for another processor. hnswlib is built for the one it is installed "
        "on; HNSWLIB_NO_NATIVE=1 at its installation builds it for all.",
    ),
    Rule(
        "illegal-instruction",
        When(signals=("SIGFPE",)),
        "The processor refused to calculate{native} {at}: as a rule native code divided an integer "
        "by zero. Floating-point numbers cannot cause this.",
    ),
    Rule(
        "abort",
        When(
            signals=("SIGABRT", "SIGTRAP"),
            text=error_texts.FATAL_REASON,
            areas=("words", "stderr", "faulthandler"),
        ),
        "{who} ended itself {at}: {why}",
    ),
    Rule(
        "abort",
        When(signals=("SIGABRT", "SIGTRAP")),
        "{who} or a library in it{native} found that it cannot go on and called abort {at}, "
        "without a word about why; somebody who sends that signal looks the same.",
    ),
    Rule(
        "segfault",
        When(text=error_texts.CHILD_SEGFAULT, signals=(EXIT,), facts=("failed",)),
        "A child of {who_object} touched memory that is not its own {at}.",
    ),
    Rule(
        "abort",
        When(text=error_texts.CHILD_ABORT, signals=(EXIT,), facts=("failed",)),
        "A child of {who_object} called abort {at}.",
    ),
    *(
        Rule(
            name,
            When(
                text=text,
                areas=("faulthandler",),
                signals=(EXIT,),
                facts=("failed", "child-crashed"),
                processes=(COMMAND,),
            ),
            "A child of {who_object} crashed in native code, and {who_object} gave up a moment "
            "later.",
        )
        for name, text in error_texts.FATAL_IN_CHILD.items()
    ),
    Rule(
        "segfault",
        When(
            text=error_texts.WORKER_SEGFAULT,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
            without=("finished",),
        ),
        "A worker of {who_object} touched memory that is not its own {at}, and its parent gave up.",
    ),
    Rule(
        "killed",
        When(
            text=error_texts.WORKER_GONE,
            signals=(EXIT,),
            facts=("failed", "traceback"),
            processes=(COMMAND,),
        ),
        "A worker process of {who_object} was suddenly gone, without a word, and {who_object} gave "
        "up. A crash in native code would have left stacks, as a rule: more likely something "
        "killed it, or it left by itself (os._exit).",
    ),
)
