"""The rules for ends by exit code that no other rule explains. `rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.incidents import error_texts
from ttf.incidents.rule import COMMAND, EXIT, OURS, Rule, When

EXIT_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "vanished",
        When(facts=("exit-zero",), without=("finished",), processes=(COMMAND,)),
        "{who} ended with exit code 0, but Python did not shut down normally. Its code called "
        "os._exit(0), or a library called exit. It is unknown whether the work was complete. Data "
        "that was not yet written is lost.",
    ),
    Rule(
        "vanished",
        When(facts=("exit-zero",), without=("finished",)),
        "{who} ended {at} with exit code 0 before the run was complete. Probably its code or a "
        "library called exit. The run did not succeed.",
    ),
    Rule(
        "unknown",
        When(
            text=error_texts.NO_START,
            areas=("stderr", "faulthandler"),
            signals=(EXIT,),
            facts=("failed",),
            without=("finished",),
        ),
        "Python could not start: {why} Often PYTHONHOME or PYTHONPATH names another installation, or "
        "files of Python are missing.",
    ),
    Rule(
        "unknown",
        When(exit_codes=(127,), text=error_texts.DYNAMIC_LINKER, without=("finished", "traceback")),
        "The dynamic linker of the system ended {who_object} {at}, because a library is missing or "
        "has another version: {why}",
    ),
    Rule(
        "killed",
        When(exit_codes=(120,), text=error_texts.NO_READER, processes=(COMMAND,)),
        "Python could not write the rest of its output when it ended, because nobody read the pipe "
        "any more. Then its exit code is 120.",
    ),
    Rule(
        "killed",
        When(exit_codes=(124,), processes=(COMMAND,), without=("finished", "traceback")),
        "{who} ended with exit code 124. The program timeout ends with this code after it has ended "
        "its command at a time limit.",
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback", "finished"), processes=(COMMAND,)),
        "{who} ended with exit code {code}. Shortly before, it wrote this error: {error} Its code "
        "caught that error, so the cause can be different.",
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback", "told-by-ttf"), processes=OURS),
        "ttf ended {who_object} {at} because of this error: {error}",
        certain=True,
        own_exit_code=True,
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback", "uncaught")),
        "Python code raised an exception {at} and did not catch it: {error}{raised}",
        certain=True,
        own_exit_code=True,
    ),
    Rule(
        "python-error",
        When(signals=(EXIT,), facts=("failed", "traceback")),
        "{who} ended {at} with exit code {code}. Its last message is an uncaught Python "
        "exception: {error}{raised}",
        own_exit_code=True,
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed", "finished", "last-line"), processes=(COMMAND,)),
        "{who} ended with exit code {code}. Python shut down normally and without an uncaught "
        "exception, so this was not a crash. {which} that it wrote is possibly the reason: "
        "{last}",
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed", "finished"), processes=(COMMAND,)),
        "{who} ended with exit code {code}. Python shut down normally and without an uncaught "
        "exception, so this was not a crash. Look up the exit code in the documentation of the "
        "command.",
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed", "last-line")),
        "{who} ended {at} with exit code {code}. {which} that it wrote is possibly the reason: "
        "{last}",
    ),
    Rule(
        "unknown",
        When(signals=(EXIT,), facts=("failed",)),
        "{who} ended {at} with exit code {code} and without an error message.",
    ),
    Rule("unknown", When(signals=(EXIT,)), "{who} ended normally. There is nothing to explain."),
)
