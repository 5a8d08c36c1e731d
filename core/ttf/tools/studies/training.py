"""One run of a study: a `ttf train` that ends with us, what its end means, what is kept of it."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from ttf.errors import ExitCode, TtfError
from ttf.process.command import TtfCommand
from ttf.process.error_document import from_document

Result = Literal["crash", "clean", "invalid", "void"]
"""crash: an incident happened; invalid: the configuration or the data would not go; void: somebody
else ended it."""
NOT_ITS_FAULT: Final = frozenset({"killed", "disk-full", "data-changed"})
"""Incidents that say nothing of the configuration."""
MOST_VOID: Final = 3
"""So often in a row somebody may end a run before the study gives up."""
_KEPT: Final = frozenset({"incidents", "run.toml", "summary.json", "stderr.txt"})
_LEAVE_S: Final = 6.0


class Training(TtfCommand):
    """`ttf train` in a process of its own session. Use it with `with`: what still runs is ended.

    Start it from a thread that lives as long: the kernel ends it with the thread that spawned it.
    """

    def __init__(self, words: Sequence[str], run: Path, *, cwd: Path | None = None) -> None:
        """`words` follow `ttf`; what it says is kept beside the folder `run` until it ends."""
        out, err = (run.parent / f"{run.name}.{kind}" for kind in ("out", "err"))
        super().__init__(words, out, err, cwd=cwd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.end(_LEAVE_S)
        finally:
            self.out.unlink(missing_ok=True)
            self.err.unlink(missing_ok=True)

    def document(self) -> dict[str, Any]:
        """What --json said; of one that said nothing there, the end of its standard error as an
        error. Call it after the end."""
        try:
            found: dict[str, Any] = json.loads(self.out.read_bytes())
        except ValueError:
            return {"error": {"message": self.err.read_text(errors="replace")[-800:]}}
        return found


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


def end_all(trainings: Sequence[Training]) -> None:
    """All at once: each may take its time to leave."""
    with contextlib.ExitStack() as stack:
        for training in trainings:
            stack.push(training)
        for training in trainings:
            if training.process.poll() is None:
                training.process.send_signal(signal.SIGTERM)


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
