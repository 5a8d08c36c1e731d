"""Does the missing runs of a study and records every run."""

from __future__ import annotations

import contextlib
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ttf.errors import GaveUp
from ttf.tools.studies.one_run import MOST_VOID, FinishedRun, StartedRun, by_chance, error_of, tidy
from ttf.tools.studies.study import RunT, Study

_LOOK_EVERY_S: Final = 0.05
TaskT = TypeVar("TaskT")


@dataclass(frozen=True, kw_only=True)
class Limits:
    # Limits of one call; the study does not store them.
    budget_s: float | None = None
    parallel: int = 1  # runs at a time


class Watcher(Generic[TaskT, RunT]):
    """Gets the events of a study. This class ignores them."""

    def starts(self, task: TaskT) -> None: ...

    def ended(self, finished: FinishedRun[RunT], budget_left_s: float | None) -> None:
        """Called after the run was recorded. `budget_left_s`: None without a budget."""


class Planner(ABC, Generic[TaskT, RunT]):
    """Decides what a study runs next, and how. Each kind of study has its own."""

    @abstractmethod
    def next_tasks(self, budget_left_s: float | None) -> Sequence[TaskT]:
        """Called again when all tasks are finished. Empty: the study stops."""

    @abstractmethod
    def start(self, task: TaskT) -> StartedRun | FinishedRun[RunT]:
        """Returns a FinishedRun if the run cannot be started, which is a result too."""

    @abstractmethod
    def finish(self, task: TaskT, run: StartedRun) -> FinishedRun[RunT]:
        """Reads the run, and deletes the files that are not kept."""


def carry_out(
    study: Study[Any, RunT],
    planner: Planner[TaskT, RunT],
    limits: Limits,
    watcher: Watcher[TaskT, RunT],
) -> None:
    """Runs until the planner has no more tasks.

    Raises the error of a run that the study needs, and GaveUp if several runs in a row were ended
    from outside.
    """
    records = Records(study, watcher)
    sitting = _Sitting(planner=planner, limits=limits, watcher=watcher, records=records)
    while tasks := planner.next_tasks(sitting.budget_left_s):
        sitting.run_all(tasks)


@dataclass
class Records(Generic[TaskT, RunT]):
    """Takes runs that have ended into the journal."""

    study: Study[Any, RunT]
    watcher: Watcher[TaskT, RunT]
    voids_in_a_row: int = 0

    def take(self, finished: FinishedRun[RunT], budget_left_s: float | None) -> None:
        """Raises the error of a run that the study needs, and GaveUp."""
        is_void = finished.result == "void"
        self.voids_in_a_row = self.voids_in_a_row + 1 if is_void else 0
        hopeless = is_void and not by_chance(finished.result, finished.classes)
        if hopeless or (finished.result == "invalid" and finished.needed):
            error = error_of(finished.error, finished.exit_code)
            error.details.update(finished.error_details)
            raise error
        self.study.remember(finished.run)
        self.watcher.ended(finished, budget_left_s)
        if self.voids_in_a_row >= MOST_VOID:
            raise GaveUp(
                f"Another program or a person ended {self.voids_in_a_row} {self.study.RUN_NOUN}s "
                "in a row.",
                hint=(
                    f"The evidence is in {self.study.folder / 'runs'}. After you have removed "
                    f"the cause: {self.study.resume_command(self.study.folder)}"
                ),
            )


@dataclass(kw_only=True)
class _Sitting(Generic[TaskT, RunT]):
    planner: Planner[TaskT, RunT]
    limits: Limits
    watcher: Watcher[TaskT, RunT]
    records: Records[TaskT, RunT]
    began: float = field(default_factory=time.monotonic)

    @property
    def budget_left_s(self) -> float | None:
        budget_s = self.limits.budget_s
        return None if budget_s is None else budget_s - (time.monotonic() - self.began)

    def run_all(self, tasks: Sequence[TaskT]) -> None:
        # If an exception or a signal ends this loop, `finally` ends the runs.
        waiting = list(tasks)
        running: list[tuple[TaskT, StartedRun]] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.limits.parallel:
                    task = waiting.pop(0)
                    self.watcher.starts(task)
                    started = self.planner.start(task)
                    if isinstance(started, FinishedRun):
                        self._finished(started)
                    else:
                        running.append((task, started))
                over = [(task, run) for task, run in running if run.is_over]
                for task, run in over:
                    running.remove((task, run))
                    run.wait()
                    self._finished(self.planner.finish(task, run))
                if running and not over:
                    time.sleep(_LOOK_EVERY_S)
        finally:
            end_all([run for _, run in running])

    def _finished(self, finished: FinishedRun[RunT]) -> None:
        self.records.take(finished, self.budget_left_s)


def end_all(runs: Sequence[StartedRun]) -> None:
    # Signals all first: each run may take its time to end.
    with contextlib.ExitStack() as stack:
        for run in runs:
            stack.callback(tidy, run.folder, keep=False)
            stack.callback(run.close)
        for run in runs:
            if not run.is_over:
                run.process.send_signal(signal.SIGTERM)
