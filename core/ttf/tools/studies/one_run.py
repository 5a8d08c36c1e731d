"""One run of a study, from its start to what the study must know of its end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ttf.tools.studies.training import Result, Training

RunT = TypeVar("RunT")


class StartedRun:
    """A `ttf train` in a process tree of its own, writing to `folder`."""

    exit_code: int
    error: Mapping[str, Any] | None
    """As --json says it; both are known after `wait`."""

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
        command = [*words, "--out", str(self.folder), "--json"]
        self.training = Training(command, self.folder, cwd=cwd)

    @property
    def is_over(self) -> bool:
        return self.training.process.poll() is not None

    def wait(self) -> None:
        self.exit_code = self.training.process.wait()
        self.wall_s = time.monotonic() - self._began
        with self.training:
            self.error = self.training.document().get("error")


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
