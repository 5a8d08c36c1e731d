"""The rules for crashes in native code. `rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import child_texts, error_texts
from ttf.incidents.child_rules import CHILD_RULES
from ttf.incidents.remedies import AFTER_A_REASON
from ttf.incidents.rule import EXIT, Rule, When

ABORTS: Final = ("SIGABRT", "SIGTRAP", EXIT)

NATIVE_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "bus-error",
        When(text=child_texts.CHILD_BUS_ERROR, signals=ABORTS, facts=("failed", "cut-file")),
        "A child process of {who_object} read a mapped file {at} after the file was truncated: "
        "{file} (before: {was}; now: {now}).",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(text=error_texts.SHM_SHORT, signals=(*ABORTS, "SIGBUS"), facts=("failed",)),
        "Shared memory is full {at}: /dev/shm had no space for a page that a process used{full}.",
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("cut-file",)),
        "{who} read a mapped file {at} after the file was truncated: {file} (before: {was}; now: "
        "{now}).",
        certain=True,
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("changed-files",)),
        "{who} read a page of a mapped file {at}, but the file no longer contained this page. "
        "{file} was overwritten (before: {was}; now: {now}). A file is empty for a moment while a "
        "program overwrites it.",
        ends_with=ExitCode.BAD_DATA,
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",), facts=("disk-low",)),
        "{who} used a page of a mapped file {at}, but the file system had no space for it: the "
        "disk is full{full}. In a mapped file, a full disk causes SIGBUS instead of an error.",
    ),
    Rule(
        "bus-error",
        When(signals=("SIGBUS",)),
        "{who} used a memory page{native} {at} that could not be loaded. Possible causes: a "
        "mapped file was truncated, its disk is full or did not answer, or a pointer was damaged. ttf "
        "found no change in the input files that it knows.",
    ),
    Rule(
        "heap-corruption",
        When(
            text=error_texts.SANITIZER,
            areas=("stderr",),
            signals=ABORTS,
            facts=("failed",),
            without=("finished",),
        ),
        "AddressSanitizer found that native code used memory wrongly {at}, and ended {who_object}: "
        "{why}",
    ),
    Rule(
        "segfault",
        When(
            text=error_texts.SANITIZER_SEGFAULT,
            areas=("stderr",),
            signals=ABORTS,
            facts=("failed",),
            without=("finished",),
        ),
        "{who} used an invalid memory address {at}. AddressSanitizer reported this and ended it. "
        "The error is in native code.",
    ),
    Rule(
        "heap-corruption",
        When(
            text=error_texts.OVERFLOW_FOUND,
            areas=("words", "stderr"),
            signals=("SIGABRT", "SIGTRAP"),
        ),
        "Native code{native} wrote beyond the end of a buffer {at}. A check of the compiler found "
        "this and ended {who_object}: {why}",
    ),
    Rule(
        "heap-corruption",
        When(
            text=error_texts.PYTHON_HEAP,
            areas=("stderr", "faulthandler"),
            signals=("SIGABRT", "SIGTRAP"),
        ),
        "Python's check of its memory found damaged data{native} {at} and ended {who_object}: {why} "
        "Native code wrote to a wrong address, possibly long before.",
    ),
    Rule(
        "heap-corruption",
        When(text=error_texts.HEAP, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        "The memory allocator found damaged heap data{native} {at} and ended {who_object}. Native "
        "code wrote to a wrong address, possibly long before. The allocator wrote: {line} A library that "
        "is named there is not always the cause.",
    ),
    Rule(
        "cxx-exception",
        When(text=error_texts.CXX_WHAT, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        "C++ code{native} raised an exception of type {type} {at} and did not catch it, which ends "
        "the process: {why}",
    ),
    Rule(
        "cxx-exception",
        When(
            text=error_texts.CXX_VIRTUAL,
            areas=("words", "stderr"),
            signals=("SIGABRT", "SIGTRAP"),
        ),
        "C++ code{native} called a virtual function {at} of an object that was not complete: its "
        "constructor or destructor was running, or it was destroyed before.",
    ),
    Rule(
        "cxx-exception",
        When(
            text=error_texts.CXX_THREAD, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")
        ),
        "C++ code{native} ended {who_object} {at} by std::terminate, without an exception. Usually "
        "a C++ thread object was destroyed while its thread was still running.",
    ),
    Rule(
        "cxx-exception",
        When(text=error_texts.CXX, areas=("words", "stderr"), signals=("SIGABRT", "SIGTRAP")),
        "C++ code{native} raised an exception {at} and did not catch it. An uncaught C++ "
        "exception ends the process.",
    ),
    Rule(
        "segfault",
        When(text=error_texts.OPENBLAS_REGIONS, areas=("stderr", "stdout"), signals=("SIGSEGV",)),
        "Too many threads called OpenBLAS at the same time {at}: it had no memory region left. OpenBLAS "
        "only reports this and goes on with an invalid address, which ended {who_object}.",
        advice=(
            "Let fewer threads call numpy or scipy at the same time.",
            "Set OPENBLAS_NUM_THREADS to a small number, as its message advises.",
        ),
    ),
    Rule(
        "segfault",
        When(signals=("SIGSEGV",)),
        "{who} used an invalid memory address{native} {at}. Native code used a wrong pointer, or a "
        "recursion used up the stack. Python code alone can cause only such a recursion.",
    ),
    Rule(
        "illegal-instruction",
        When(signals=("SIGILL",)),
        "{who} executed an illegal instruction{native} {at}. Usually a library was built for another "
        "processor, or a check in it failed and stopped the program on purpose (__builtin_trap). hnswlib is built for the processor of the "
        "machine that installs it; to build it for all processors, install it with "
        "HNSWLIB_NO_NATIVE=1.",
    ),
    Rule(
        "illegal-instruction",
        When(signals=("SIGFPE",)),
        "The processor reported an arithmetic error{native} {at}. Usually native code divided an "
        "integer by zero. Calculations with floating-point numbers do not cause this error.",
    ),
    Rule(
        "abort",
        When(signals=("SIGABRT", "SIGTRAP"), text=error_texts.NO_LIBGCC, areas=("words", "stderr")),
        "{who} aborted itself {at}: {why} glibc loads this library when a thread ends, for example when "
        "Python ends before its daemon threads. If the library is installed, the process could not open "
        "another file (ulimit -n), or a limit of memory left no room for it (ulimit -v).",
        advice=(
            "Look for files or sockets that stay open: ls /proc/PID/fd.",
            "End daemon threads and join them before the program ends.",
        ),
    ),
    Rule(
        "abort",
        When(
            signals=("SIGABRT", "SIGTRAP"),
            text=error_texts.TOO_MANY_FOR_SELECT,
            areas=("words", "stderr"),
        ),
        "Native code{native} called select() {at} with a file descriptor of 1,024 or more, which select() "
        "cannot take. A check of the C library found this and ended {who_object}: {why} So more than a "
        "thousand files or sockets were open.",
        advice=(
            "Look for files or sockets that stay open: ls -l /proc/PID/fd.",
            "Let the library use poll() instead, if it has such an option or a newer version.",
        ),
    ),
    Rule(
        "abort",
        When(
            signals=("SIGABRT", "SIGTRAP"),
            text=error_texts.HELD_AT_SHUTDOWN,
            areas=("words", "stderr", "faulthandler"),
        ),
        "{who} aborted itself {at}: {why}",
        advice=("End daemon threads and join them before the program ends.",),
    ),
    Rule(
        "abort",
        When(
            signals=("SIGABRT", "SIGTRAP"),
            text=error_texts.FATAL_REASON,
            areas=("words", "stderr", "faulthandler"),
        ),
        "{who} aborted itself {at}: {why}",
        advice=AFTER_A_REASON,
    ),
    Rule(
        "abort",
        When(signals=("SIGABRT", "SIGTRAP"), facts=("last-line",)),
        "{who} or a library in it{native} called abort {at}. {which} that it wrote is "
        "possibly the reason: {last} If another program or a person sends this signal, the evidence "
        "looks the same.",
    ),
    Rule(
        "abort",
        When(signals=("SIGABRT", "SIGTRAP")),
        "{who} or a library in it{native} called abort {at} and wrote no reason. If another "
        "program or a person sends this signal, the evidence looks the same.",
    ),
    *(
        Rule(
            name,
            When(
                text=text,
                areas=("stderr",),
                signals=(EXIT,),
                facts=("failed",),
                without=("finished", "traceback"),
            ),
            "Native code crashed {at}. A signal handler of a library reported this and ended "
            "{who_object}: {why}",
        )
        for name, text in error_texts.HANDLED.items()
    ),
    *CHILD_RULES,
)
