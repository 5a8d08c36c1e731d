"""Which process of a command explains its end. Pure: from the ends of its Pythons.

A shell, make or a launcher of several processes ends with a code that says little, or with 0 behind a
pipeline; the process that really died is one of its descendants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttf.tools.guard.pythons import PythonEnd

# With these, a Python launcher says that a process of its own failed.
_CHILD_FAILED: Final = frozenset({"ChildFailedError", "CalledProcessError"})
_RECENT_S: Final = 10.0
MOST_HIDDEN: Final = 8


# A reader such as `head` had enough, or the user ended it.
_NO_FAILURE: Final = frozenset({"BrokenPipeError", "KeyboardInterrupt"})


def crashes_below(ends: Sequence[PythonEnd], command: int) -> list[PythonEnd]:
    """Behind exit code 0, each of them is a hidden death."""
    return [end for end in ends if end.signum is not None and end.pid != command][-MOST_HIDDEN:]


def exceptions_below(ends: Sequence[PythonEnd], command: int) -> list[PythonEnd]:
    """Behind exit code 0, only a refused allocation is a death: a helper may fail on purpose."""
    return [end for end in ends if end.signum is None and end.pid != command][-MOST_HIDDEN:]


def hidden_exception(ends: Sequence[PythonEnd], command: int) -> str:
    """The class of the newest exception of a main program below a command that ended with 0."""
    raised = [end.uncaught for end in ends if end.main and end.pid != command]
    return next((name for name in reversed(raised) if name not in _NO_FAILURE), "")


def to_blame(
    ends: Sequence[PythonEnd], *, command: int, is_python: bool, chosen: bool, code: int
) -> PythonEnd | None:
    """The process to explain instead of a command that ended with `code`; None: the command itself.

    `chosen`: the command is a Python that ended in order.
    """
    own = next((end for end in ends if end.pid == command), None)
    others = [end for end in ends if end.pid != command]
    recent = [end for end in others if end.time >= _newest(ends) - _RECENT_S]
    if not recent:
        return None
    if not is_python:
        crashes = [end for end in recent if end.signum is not None]
        return (crashes or recent)[-1]
    if own is not None and own.uncaught in _CHILD_FAILED:
        return recent[0]  # the others were ended because of it
    if chosen:  # a launcher that passes a code on
        passed_on = [end for end in recent if code in _codes(end)]
        return passed_on[-1] if passed_on else None
    return None


def _codes(end: PythonEnd) -> set[int]:
    if end.signum is None:
        return {130} if end.uncaught == "KeyboardInterrupt" else {1}
    return {1, 128 + int(end.signum), 256 - int(end.signum)}


def _newest(ends: Sequence[PythonEnd]) -> float:
    return max((end.time for end in ends), default=0.0)
