"""The rules for commands whose child or worker process died. `native_rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.incidents import child_texts, error_texts
from ttf.incidents.rule import COMMAND, EXIT, Rule, When

_ABORTED: Final = ("failed", "child-aborted")

CHILD_RULES: Final[tuple[Rule, ...]] = (
    # A child that aborted usually wrote why, before its parent told how it ended.
    Rule(
        "alloc-failure",
        When(
            text=error_texts.UNCAUGHT_BAD_ALLOC, areas=("stderr",), signals=(EXIT,), facts=_ABORTED
        ),
        "C++ code in a child process of {who_object} could not get the memory that it needed {at}, and "
        "did not catch the exception. The kernel killed no process: it refused the request for memory.",
        at_once=True,
    ),
    Rule(
        "heap-corruption",
        When(text=error_texts.OVERFLOW_FOUND, areas=("stderr",), signals=(EXIT,), facts=_ABORTED),
        "Native code in a child process of {who_object} wrote beyond the end of a buffer {at}. A check of "
        "the compiler found this and ended the child: {why}",
    ),
    Rule(
        "heap-corruption",
        When(text=error_texts.HEAP, areas=("stderr",), signals=(EXIT,), facts=_ABORTED),
        "The memory allocator found damaged heap data in a child process of {who_object} {at} and ended "
        "the child. Native code wrote to a wrong address, possibly long before. It wrote: {line}",
    ),
    Rule(
        "cxx-exception",
        When(text=error_texts.CXX_WHAT, areas=("stderr",), signals=(EXIT,), facts=_ABORTED),
        "C++ code in a child process of {who_object} raised an exception of type {type} {at} and did not "
        "catch it, which ended the child: {why}",
    ),
    Rule(
        "cxx-exception",
        When(text=error_texts.CXX, areas=("stderr",), signals=(EXIT,), facts=_ABORTED),
        "C++ code ended a child process of {who_object} {at} by std::terminate.",
    ),
    Rule(
        "abort",
        When(
            text=error_texts.FATAL_REASON,
            areas=("stderr", "faulthandler"),
            signals=(EXIT,),
            facts=_ABORTED,
        ),
        "A child process of {who_object} aborted itself {at}: {why}",
    ),
    Rule(
        "segfault",
        When(text=child_texts.CHILD_SEGFAULT, signals=(EXIT,), facts=("failed",)),
        "A child process of {who_object} used an invalid memory address {at}.",
    ),
    Rule(
        "abort",
        When(text=child_texts.CHILD_ABORT, signals=(EXIT,), facts=("failed",)),
        "A child process of {who_object} called abort {at}.",
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
            "A child process of {who_object} crashed in native code. Shortly after, {who_object} "
            "ended.",
        )
        for name, text in child_texts.FATAL_IN_CHILD.items()
    ),
    Rule(
        "segfault",
        When(
            text=child_texts.WORKER_SEGFAULT,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
            without=("finished",),
        ),
        "A worker process of {who_object} used an invalid memory address {at}. Then its parent "
        "process ended.",
    ),
    Rule(
        "python-error",
        When(
            text=child_texts.NO_MAIN_GUARD,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
            without=("finished",),
        ),
        "{who} starts worker processes while it is imported, and each worker imports it again. Put "
        'the code that starts them below `if __name__ == "__main__":`.',
    ),
    Rule(
        "python-error",
        When(
            text=child_texts.WORKER_NOT_STARTED,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
            without=("finished",),
        ),
        "A worker process of {who_object} could not start {at}: {why} Then its parent process ended.",
    ),
    Rule(
        "killed",
        When(
            text=child_texts.WORKER_GONE,
            signals=(EXIT,),
            facts=("failed", "traceback"),
        ),
        "A worker process of {who_object} ended suddenly and wrote no message. Then {who_object} "
        "ended. A crash in native code usually leaves stacks, and there are none. More probably, "
        "the worker was killed, or it called os._exit.",
    ),
)
