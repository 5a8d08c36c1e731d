"""One run of a study: a `ttf train` that ends with us, and what the study must know of its end."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

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


RunT = TypeVar("RunT")
_LEAVE_S: Final = 6.0


class StartedRun(TtfCommand):
    """A `ttf train` in a process tree of its own, writing to `folder`."""

    exit_code: int
    wall_s: float
    error: Mapping[str, Any] | None
    """As --json says it; all three are known after `wait`."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        cwd: Path | None = None,
        began: float | None = None,
    ) -> None:
        """`words` follow `ttf`, without --out and --json. `began`: on the monotonic clock, where
        something had to be made for it first."""
        self.folder = folder.absolute()
        shutil.rmtree(self.folder, ignore_errors=True)  # of a study that was killed
        self.folder.parent.mkdir(exist_ok=True)
        self.started_at = time.time()
        self._began = time.monotonic() if began is None else began
        out, err = (self.folder.with_name(f"{folder.name}.{kind}") for kind in ("out", "err"))
        super().__init__([*words, "--out", str(self.folder), "--json"], out, err, cwd=cwd)

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def wait(self) -> None:
        self.exit_code = self.process.wait()
        self.wall_s = time.monotonic() - self._began
        try:
            self.error = self._document().get("error")
        finally:
            self.close()

    def close(self) -> None:
        """Ends what still runs of it; its folder stays."""
        try:
            self.end(_LEAVE_S)
        finally:
            self.out.unlink(missing_ok=True)
            self.err.unlink(missing_ok=True)

    def _document(self) -> dict[str, Any]:
        """What --json said; of one that said nothing there, the end of its standard error as an
        error."""
        try:
            found: dict[str, Any] = json.loads(self.out.read_bytes())
        except ValueError:
            return {"error": {"message": self.err.read_text(errors="replace")[-800:]}}
        return found


@dataclass(frozen=True, kw_only=True)
class FinishedRun(Generic[RunT]):
    """A finished run as a line of the journal, and what the study itself must know of it."""

    run: RunT
    result: Result
    classes: Sequence[str] = ()
    """Of its incidents."""
    exit_code: int = 0
    error: Mapping[str, Any] | None = None
    error_details: Mapping[str, Any] = field(default_factory=dict)
    """Stand beside the error in --json where this run ends the study."""
    needed: bool = True
    """The study cannot go on where the configuration or the data of this run was refused."""
    evaluating_s: float = 0.0
    """What its evaluations took, those before and after the training left out."""
