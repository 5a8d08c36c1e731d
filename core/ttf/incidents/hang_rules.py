"""The rules for processes that made no progress. `rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.incidents import error_texts
from ttf.incidents.remedies import (
    AFTER_A_HANG,
    AFTER_A_WAIT_FOR_A_LOCK,
    AFTER_A_WAIT_FOR_INPUT,
    AFTER_A_WAIT_FOR_STORAGE,
)
from ttf.incidents.rule import EXIT, Rule, When

_OTHERS_SILENT: Final = (
    "{who} waited {at} for other processes of the training, which did not answer in time. Then it "
    "ended itself. Look for the cause in the output of the other processes: one of them hangs, is "
    "slow, or has ended."
)

_LOOK_AT_OTHERS: Final = (
    "Look at the output of the other processes. What takes long in one of them only: an evaluation?",
    "If they were only slow, use a longer timeout in init_process_group.",
)

HANGS_WE_ENDED: Final[tuple[Rule, ...]] = (
    Rule(
        "hang",
        When(killed_by_us=("hang",), facts=("no-stacks", "waits-in-kernel")),
        "{who} hung {at}: {reason}. ttf could not read its stacks, because the kernel did not let its "
        "signals through. ttf killed it. Usually a disk or a network file system does not answer in "
        "such a case.",
        advice=AFTER_A_WAIT_FOR_STORAGE,
    ),
    Rule(
        "hang",
        When(killed_by_us=("hang",), facts=("no-stacks",)),
        "{who} hung {at}: {reason}. ttf could not read its stacks. ttf killed it.",
        advice=AFTER_A_HANG,
    ),
    Rule(
        "hang",
        When(killed_by_us=("hang",), facts=("waits-for-input",)),
        "{who} hung {at}: {reason}. So it waited for an answer: to a question of the script or of a library, "
        "or to a debugger. ttf saved its stacks and then killed it.",
        advice=AFTER_A_WAIT_FOR_INPUT,
    ),
    Rule(
        "hang",
        When(killed_by_us=("hang",), facts=("waits-for-lock-file",)),
        "{who} hung {at}: {reason}. It waited for a lock file. If no other process builds or downloads "
        "the same, the process that made the file was probably killed. ttf saved its stacks and then killed it.",
        advice=AFTER_A_WAIT_FOR_A_LOCK,
    ),
    Rule(
        "hang",
        When(killed_by_us=("hang",)),
        "{who} hung {at}: {reason}. ttf saved its stacks and then killed it.",
    ),
)

HANGS_THAT_ENDED_THEMSELVES: Final[tuple[Rule, ...]] = (
    Rule(
        "hang",
        When(text=error_texts.COLLECTIVE_TIMEOUT, signals=(EXIT,), facts=("failed",)),
        _OTHERS_SILENT,
        advice=_LOOK_AT_OTHERS,
    ),
    Rule(
        "hang",
        When(text=error_texts.COLLECTIVE_TIMEOUT, areas=("words", "stderr"), signals=("SIGABRT",)),
        _OTHERS_SILENT,
        advice=_LOOK_AT_OTHERS,
    ),
    Rule(
        "hang",
        When(text=error_texts.LOADER_TIMEOUT, signals=(EXIT,), facts=("failed", "traceback")),
        "{who} got no batch from the workers of its DataLoader {at} within the time that it allows "
        "(timeout=), and ended itself: {error} A worker waits for something (a lock, a disk, the "
        "network, threads that fork did not copy), or is only slow.",
        advice=(
            "Look at the stacks of a worker while it waits: py-spy dump --pid PID.",
            "If the worker was only slow, use a longer timeout.",
        ),
    ),
    Rule(
        "hang",
        When(
            text=error_texts.WATCHDOG,
            areas=("stderr", "faulthandler"),
            signals=(EXIT,),
            facts=("failed",),
            without=("finished",),
        ),
        "{who} made no progress {at}, and a watchdog in its own code ended it "
        "(faulthandler.dump_traceback_later).",
    ),
)
