"""One run of a study: a `ttf` command that ends with the study, and its result."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from ttf.errors import ArtifactDamaged, ExitCode, Told
from ttf.process.command import TtfCommand
from ttf.process.error_document import from_document
from ttf.rundir.confined import end_of, names_in, read_json
from ttf.rundir.removing import remove_if_possible, remove_if_there

# crash: an incident happened; invalid: configuration or data were refused; void: ended from
# outside.
Result = Literal["crash", "clean", "invalid", "void"]
# Incidents that have nothing to do with the configuration.
NOT_ITS_FAULT: Final = frozenset({"killed", "disk-full", "data-changed"})
MOST_VOID: Final = 3  # Void runs in a row before the study gives up.
_KEPT: Final = frozenset({"incidents", "run.toml", "summary.json", "stderr.txt"})


def result_of(code: int, classes: Iterable[str]) -> Result:
    """From the exit code and the classes of the incidents."""
    found = set(classes)
    if found & NOT_ITS_FAULT or code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        return "void"
    if found or code < 0 or code in (ExitCode.GAVE_UP, ExitCode.NUMERIC):
        return "crash"
    if code in (ExitCode.USAGE, ExitCode.BAD_DATA):
        return "invalid"
    return "void" if code else "clean"


def by_chance(result: Result, classes: Iterable[str]) -> bool:
    """Whether a void run may succeed if repeated: a signal killed it."""
    return result == "void" and "killed" in classes


def tidy(run: Path, *, keep: bool) -> None:
    """Deletes the run's folder, or with `keep` all of it but the evidence."""
    study = run.parents[1]
    if not keep:
        remove_if_possible(run, study)
        return
    with contextlib.suppress(FileNotFoundError):  # it ended before it had one
        for name in names_in(run, study):
            if name not in _KEPT:
                remove_if_possible(run / name, study)


def error_of(error: Mapping[str, Any] | None, exit_code: int) -> Told:
    """The error of a run, for a study that cannot go on without this run."""
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
_LAST_WORDS: Final = 800
_MOST_SAID: Final = 1 << 20


class StartedRun(TtfCommand):
    """A `ttf train`, or a guarded command, in its own process tree; it writes to `folder`:
    `runs/NAME` of a study."""

    exit_code: int
    wall_s: float
    error: Mapping[str, Any] | None  # from --json; these are set by `wait`
    words_said: str  # the end of what it printed
    survived: bool = False  # it still worked after `limit_s`

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        cwd: Path | None = None,
        began: float | None = None,
        command: Sequence[str] = (),
        limit_s: float | None = None,
    ) -> None:
        """`words` exclude --out and --json. `began` (monotonic clock) includes preparations.
        `command`: what they guard; its output is not JSON. It is ended after `limit_s`."""
        self.folder = folder.absolute()
        self._study = self.folder.parents[1]
        self.folder.parent.mkdir(exist_ok=True)
        out, err = (self.folder.with_name(f"{folder.name}.{kind}") for kind in ("out", "err"))
        for left in (self.folder, out, err):  # of a study that was killed
            remove_if_there(left, self._study)
        self.started_at = time.time()
        self._began = time.monotonic() if began is None else began
        self._limit_s, self._guarded = limit_s, bool(command)
        tail = ["--", *command] if command else ["--json"]
        super().__init__([*words, "--out", str(self.folder), *tail], out, err, cwd=cwd)

    @property
    def is_over(self) -> bool:
        over = self.process.poll() is not None
        if not over and self._limit_s is not None:
            lasted_s = time.monotonic() - self._began
            if lasted_s > self._limit_s and not self.survived:
                self.survived = True
                self.process.send_signal(signal.SIGTERM)
            elif lasted_s > self._limit_s + _LEAVE_S:
                self.end(0.0)
        return over

    def wait(self) -> None:
        self.exit_code = self.process.wait()
        self.wall_s = time.monotonic() - self._began
        try:
            self.words_said = "".join(self._end_of(path) for path in (self.err, self.out))
            self.error = None if self._guarded else self._document().get("error")
        finally:
            self.close()

    def close(self) -> None:
        """Ends the remaining processes; the folder stays."""
        try:
            self.end(_LEAVE_S)
        finally:
            remove_if_possible(self.out, self._study)
            remove_if_possible(self.err, self._study)

    def _document(self) -> dict[str, Any]:
        # Without JSON output, the end of the standard error is the error.
        try:
            found: dict[str, Any] = dict(read_json(self.out, self._study))
        except (ArtifactDamaged, TypeError, ValueError):
            return {"error": {"message": self._end_of(self.err, _LAST_WORDS)}}
        return found

    def _end_of(self, path: Path, most: int = _MOST_SAID) -> str:
        words, _ = end_of(path, self._study, most)
        return words.decode(errors="replace")


@dataclass(frozen=True, kw_only=True)
class FinishedRun(Generic[RunT]):
    run: RunT
    result: Result
    classes: Sequence[str] = ()  # of its incidents
    exit_code: int = 0
    error: Mapping[str, Any] | None = None
    # Added to the error in --json if this run ends the study.
    error_details: Mapping[str, Any] = field(default_factory=dict)
    needed: bool = True  # If this run is refused, the study cannot go on.
    evaluating_s: float = 0.0  # Evaluations during the training, without those before and after it.
