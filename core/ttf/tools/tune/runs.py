"""One trial: a supervised `ttf train` on a part of the training pairs, watched while it runs.

study/runs/012/     of trial 12: incidents, run.toml, summary.json, stderr.txt
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ttf.errors import DataMissing
from ttf.rundir import durable
from ttf.rundir.run_record import RunRecord
from ttf.tools.studies.one_run import FinishedRun, Result, StartedRun, result_of, tidy
from ttf.tools.tune.settings import look_steps, trial_toml
from ttf.tools.tune.setup import TuneSetup
from ttf.tools.tune.trial import TrialOutcome, TuneTrial, is_finite

_LOOK_EVERY_S: Final = 0.5
Hopeless = Callable[[Sequence[float]], bool]


class TrialRun(StartedRun):
    """Ends itself where it is hopeless."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        cwd: Path,
        limit_s: float | None,
        hopeless: Callable[[TrialRun], bool],
    ) -> None:
        super().__init__(words, folder, cwd=cwd, limit_s=limit_s)
        self._hopeless = hopeless
        self._looked = time.monotonic()
        self._told = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        over = super().is_over
        now = time.monotonic()
        if not over and not self._told and now - self._looked > _LOOK_EVERY_S:
            self._looked = now
            if self._hopeless(self):
                self._told = True
                self.process.send_signal(signal.SIGTERM)
        return over


def start_trial(
    setup: TuneSetup,
    task: TuneTrial,
    study: Path,
    *,
    limit_s: float | None,
    hopeless: Callable[[TrialRun], bool],
    allow_remote: bool,
) -> TrialRun:
    cwd = Path(setup.cwd)
    if not (cwd.is_dir() and os.access(cwd, os.X_OK)):
        raise DataMissing(
            f"The study in {study} was started in the folder {setup.cwd}, which does not exist here "
            "or cannot be entered.",
            hint="Make this folder, or start a new study.",
        )
    config = study / "runs" / f"{task.name}.toml"
    config.parent.mkdir(exist_ok=True)
    text = trial_toml(setup, task.number, task.point)
    durable.write_atomically(config, text.encode(), "tune")
    words = ["train", str(config.absolute()), *([] if allow_remote else ["--no-remote"])]
    folder = study / "runs" / task.name
    return TrialRun(words, folder, cwd=cwd, limit_s=limit_s, hopeless=hopeless)


def behind_at(scores: Sequence[float], steps: int, hopeless: Hopeless) -> int | None:
    """The first look at which a trial was hopeless; never the last one, which costs nothing more."""
    looks = len(look_steps(steps))
    return next((n for n in range(1, len(scores) + 1) if n < looks and hopeless(scores[:n])), None)


def scores_so_far(setup: TuneSetup, run: Path, steps: int) -> list[float]:
    """The metric at each look that is done, in order."""
    return _read(setup, run, steps)[0]


def _read(setup: TuneSetup, run: Path, steps: int) -> tuple[list[float], float]:
    """The metric at each look, and the seconds of all evaluations."""
    found: dict[int, float] = {}
    seconds = 0.0
    for line in RunRecord(run).metrics():
        if line["type"] == "eval" and "step" in line:
            seconds += line.get("seconds", 0.0)
            value = line.get("metrics", {}).get(setup.metric)
            if value is not None and is_finite(value):
                found[line["step"]] = float(value)
    scores = []
    for step in look_steps(steps):
        if step not in found:
            break
        scores.append(found[step])
    return scores, seconds


def finish_trial(
    setup: TuneSetup, task: TuneTrial, run: StartedRun, hopeless: Hopeless
) -> FinishedRun[TuneTrial]:
    """Reads the run. A trial that was quicker than our look at it is hopeless all the same: what a
    trial says must not depend on when we looked."""
    steps = setup.steps_of(task.point if task.number > 1 else {})
    record = RunRecord(run.folder)
    scores, evaluating_s = _read(setup, run.folder, steps)
    behind = behind_at(scores, steps, hopeless)
    summary = record.summary()
    classes = tuple(dict.fromkeys(found["class"] for found in record.incidents()))
    score = summary.get("metrics", {}).get(setup.metric)
    told = str((run.error or {}).get("message", "")).strip()
    trial = replace(
        task,
        scores=tuple(scores),
        steps=summary.get("steps", 0),
        seconds=round(run.wall_s, 3),
        evaluating_s=round(evaluating_s, 3),
        incidents=classes,
        exit_code=run.exit_code,
    )
    result: Result = "clean"
    if behind is not None:
        # What it did after that look depends on when we looked.
        trial = replace(
            trial,
            outcome="hopeless",
            scores=tuple(scores[:behind]),
            steps=look_steps(steps)[behind - 1],
            exit_code=0,
            incidents=(),
        )
    elif run.exit_code == 0 and score is not None and is_finite(score):
        trial = replace(trial, score=score, metrics=summary.get("metrics", {}))
    elif run.survived:
        trial = replace(trial, outcome="cut")
    else:
        result = result_of(run.exit_code, classes)
        result = "crash" if result == "clean" else result
        outcome: TrialOutcome = "void" if result == "void" else "failed"
        trial = replace(trial, outcome=outcome, reason=told or f"exit code {run.exit_code}")
    tidy(run.folder, keep=True)
    return FinishedRun(
        run=trial,
        result=result,
        classes=classes,
        exit_code=run.exit_code,
        error=run.error,
        # The user's own configuration must be one that can run.
        needed=task.number == 1,
    )
