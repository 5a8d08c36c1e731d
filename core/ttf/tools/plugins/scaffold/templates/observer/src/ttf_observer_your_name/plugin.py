"""What ttf imports of this package: an object with the hooks that are to be called.

It is imported when a run names the observer. It imports the standard library and `ttf` alone; what
is heavy is imported when the run has started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf import Availability, hookimpl

from ._file import ValuesFile

if TYPE_CHECKING:
    from ttf import EvalRecord, StepRecord

FILE = "your-name.csv"
"""In the run's folder."""


class Observer:
    """Training waits for each of these methods: they take well under a millisecond, or hand their
    work to a thread."""

    def __init__(self) -> None:
        self._file: ValuesFile | None = None

    def availability(self) -> Availability:
        """Asked before a run begins. YOUR LIBRARY: find it with importlib.util.find_spec; where it
        is missing, Availability(ok=False, reason="...", fix="pip install ...")."""
        return Availability(ok=True)

    @hookimpl
    def ttf_run_started(self, run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
        """First, in every process that trains. What came after `resumed_from` happens again."""
        if self._file is not None:  # of an earlier run in this process that ended without a word
            self._file.close()
        known_until = _known_until(run_dir, resumed_from)
        self._file = ValuesFile(run_dir / FILE, last_step=known_until)

    @hookimpl
    def ttf_step(self, record: StepRecord) -> None:
        self._write(record.step, {"loss": record.loss, "lr": record.lr, **record.extra})

    @hookimpl
    def ttf_evaluated(self, record: EvalRecord) -> None:
        self._write(record.step, record.metrics)

    @hookimpl
    def ttf_checkpointed(self, step: int, path: Path) -> None:
        """What is known up to `step` will not be told again: from here on it must not be lost."""
        if self._file is not None:
            self._file.make_durable()

    @hookimpl
    def ttf_incident(self, incident: Mapping[str, Any]) -> None:
        """A process of the run died or hung; told by its successor, after `ttf_run_started`."""

    @hookimpl
    def ttf_run_finished(self, run_dir: Path, summary: Mapping[str, Any]) -> None:
        """Last, however the run ended; not at all in a process that is killed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        if self._file is not None:
            self._file.write(step, values)


def _known_until(run_dir: Path, resumed_from: int) -> int:
    """The last step that is not told again. A run that starts at 0 evaluates step 0, unless it
    goes on from a checkpoint of step 0."""
    if resumed_from or any((run_dir / "checkpoints").glob("step-*")):
        return resumed_from
    return -1


observer = Observer()
