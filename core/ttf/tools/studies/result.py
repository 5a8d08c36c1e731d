"""What the end of a run means for its study, and what is kept of the run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ttf.errors import ExitCode, TtfError
from ttf.process.error_document import from_document

Result = Literal["crash", "clean", "invalid", "void"]
"""crash: an incident happened; invalid: the configuration or the data would not go; void: somebody
else ended it."""
NOT_ITS_FAULT: Final = frozenset({"killed", "disk-full", "data-changed"})
"""Incidents that say nothing of the configuration."""
MOST_VOID: Final = 3
"""So often in a row somebody may end a run before the study gives up."""
_KEPT: Final = frozenset({"incidents", "run.toml", "summary.json", "stderr.txt"})


def result_of(code: int, classes: Iterable[str]) -> Result:
    """From the exit code and the classes of its incidents."""
    found = set(classes)
    if found & NOT_ITS_FAULT or code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        return "void"
    if found or code < 0 or code in (ExitCode.GAVE_UP, ExitCode.NUMERIC):
        return "crash"
    if code in (ExitCode.USAGE, ExitCode.BAD_DATA):
        return "invalid"
    return "void" if code else "clean"


def by_chance(result: Result, classes: Iterable[str]) -> bool:
    """Whether a void run may go better when it is done again: somebody killed it."""
    return result == "void" and "killed" in classes


def tidy(run: Path, *, keep: bool) -> None:
    """Leaves of a run what tells of a crash, or nothing."""
    if not keep:
        shutil.rmtree(run, ignore_errors=True)
        return
    for path in run.iterdir() if run.is_dir() else ():
        if path.name in _KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def error_of(error: Mapping[str, Any] | None, exit_code: int) -> TtfError:
    """The error that a run ended with, for a study that cannot go on without it."""
    error = error or {}
    message = str(error.get("message") or f"The run ended with exit code {exit_code}.")
    known = {int(code) for code in ExitCode}
    return from_document(
        {
            "class": error.get("class", "TtfError"),
            "message": message,
            "hint": error.get("hint", ""),
            "exit_code": exit_code if exit_code in known else int(ExitCode.OUR_FAULT),
            "fields": {},
        }
    )
