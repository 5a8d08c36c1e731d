"""The studies of `ttf bisect`: the most informative run comes next, until a verdict is sure.

bisect.jsonl  a line for each finished run
runs/NNN/     of crashed runs: incidents, run.toml, stderr.txt
data/         files with one change, while they are needed
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ttf.config.fusing import fusing_of
from ttf.rundir.confined import names_in
from ttf.rundir.removing import remove_if_possible
from ttf.rundir.typed_json import dataclass_from
from ttf.tools.bisect.command_runs import CommandExperiment
from ttf.tools.bisect.experiment import BisectRun, Experiment, Trial
from ttf.tools.bisect.factors import MOST_COPIED, DataFacts, Survey, factors_of
from ttf.tools.bisect.planner import (
    BisectPlan,
    BisectVerdict,
    believed,
    full_grid,
    judge,
    most_runs,
)
from ttf.tools.bisect.runs import LABEL_JOINT, TrainExperiment
from ttf.tools.studies.carry_out import Limits, Planner, Watcher, carry_out
from ttf.tools.studies.child import Died, ask
from ttf.tools.studies.one_run import FinishedRun, StartedRun
from ttf.tools.studies.started_here import WouldRun
from ttf.tools.studies.study import Study, sha256_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STEPS: Final = 40
# The keys of study.json, by the kind of the experiment.
_TRAINING, _COMMAND = "setup", "command"
_SURVEY: Final = "ttf.tools.bisect.survey:survey"


@dataclass(frozen=True, kw_only=True)
class BisectRequest:
    toml: Path
    sets: tuple[str, ...] = ()
    steps: int | None = None
    seed: int = 0
    confidence: float = 0.95
    rarest: float = 0.2
    most_copied: int = MOST_COPIED
    hang_timeout_s: float | None = None
    leave_out: tuple[str, ...] = ()  # ingredients to keep

    @property
    def identity(self) -> object:
        # Equal to the identity of the study's setup. Raises ConfigError.
        return str(self.toml.absolute()), sha256_of(self.toml), self.sets, self.seed


def prepare(request: BisectRequest, say: Callable[[str], None]) -> TrainExperiment:
    """Surveys configuration and data in a child process, and lists the ingredients."""
    toml = str(request.toml.absolute())
    task = {"toml": toml, "sets": list(request.sets)}
    what = "read the configuration and the data"
    try:
        survey = ask(_SURVEY, {**task, "look": True}, to=what)
    except Died as error:
        say(f"{error} ttf bisect can only change the settings of the configuration, not the data.")
        survey = ask(_SURVEY, {**task, "look": False}, to=what)
    flat = survey["flat"]
    if told := fusing_of(flat):
        say(f"note: {told}")
    factors, passed = factors_of(Survey(flat, DataFacts(**survey["facts"]), request.most_copied))
    passed |= {f.name: "--keep" for f in factors if f.name in request.leave_out}
    steps = min(request.steps or STEPS, survey["total_steps"] or STEPS)
    return TrainExperiment(
        toml=toml,
        toml_sha256=sha256_of(request.toml),
        sets=request.sets,
        steps=steps,
        seed=request.seed,
        pins=survey["pins"],
        short=_short(flat, steps, request.hang_timeout_s),
        data=survey["data"],
        factors=tuple(f for f in factors if f.name not in request.leave_out),
        passed=passed,
        confidence=request.confidence,
        rarest=request.rarest,
    )


def _short(flat: Mapping[str, Any], steps: int, hang_timeout_s: float | None) -> dict[str, Any]:
    # No ingredient of the run is removed: late phases start earlier, rare ones stay.
    out: dict[str, Any] = {
        "supervise.max_restarts": 0,
        "evaluate.every": "end",
        "evaluate.patience": 0,
        "evaluate.above_chance": False,
        "checkpoint.every_s": None,
    }
    if flat.get("gates"):
        out["gates"] = []
    if hang_timeout_s is not None:
        out["supervise.hang_timeout_s"] = hang_timeout_s
    soon, half = max(1, steps // 4), max(1, steps // 2)
    latest = {"miner.start": soon, "miner.refresh": half, "loss.memory_bank_start": soon}
    for key, most in latest.items():
        begins = flat.get(key)
        if begins in ("epoch", "auto") or (isinstance(begins, int) and begins > most):
            out[key] = most
    return out


# --- the folder ----------------------------------------------------------------------------------


class BisectStudy(Study[Experiment, BisectRun]):
    COMMAND = "bisect"
    JOURNAL = "bisect.jsonl"
    RUN_NOUN = "run"

    def settings(self) -> dict[str, Any]:
        kind = _COMMAND if isinstance(self.setup, CommandExperiment) else _TRAINING
        return {kind: asdict(cast("DataclassInstance", self.setup))}

    @classmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        setup: Experiment
        if _COMMAND in settings:
            setup = dataclass_from(CommandExperiment, settings[_COMMAND])
        else:
            setup = dataclass_from(TrainExperiment, settings[_TRAINING])
        if setup.problem:
            raise ValueError(setup.problem)
        runs = [dataclass_from(BisectRun, line) for line in lines]
        return cls(folder=folder, setup=setup, runs=runs)

    @classmethod
    def would_run(cls, setup: Experiment) -> WouldRun | None:
        return setup.would_run if isinstance(setup, CommandExperiment) else None

    def repeat_command(self, folder: Path) -> str:
        again, setup = self.resume_command(folder), self.setup
        if not isinstance(setup, CommandExperiment):
            return again
        return f"{again} {setup.given_again()}"

    def kept_runs(self) -> set[str]:
        return {f"{run.run:03d}" for run in self.runs}

    # --- what the runs say ----------------------------------------------------------------------

    @property
    def counted(self) -> list[BisectRun]:
        return [run for run in self.runs if run.result in ("crash", "clean")]

    @property
    def tally(self) -> dict[frozenset[str], tuple[int, int]]:
        out: dict[frozenset[str], tuple[int, int]] = {}
        for run in self.counted:
            runs, crashes = out.get(frozenset(run.ablated), (0, 0))
            out[frozenset(run.ablated)] = (runs + 1, crashes + (run.result == "crash"))
        return out

    @property
    def refused(self) -> dict[str, str]:
        """Ingredients that a run cannot go without, with the error."""
        return {
            run.ablated[0]: run.reason or f"exit code {run.exit_code}"
            for run in self.runs
            if run.result == "invalid" and len(run.ablated) == 1
        }

    def plan(self, most_of_grid: float | None = None) -> BisectPlan:
        refused = self.refused
        barred = {frozenset(r.ablated) for r in self.runs if r.result == "invalid" and r.ablated}
        return BisectPlan(
            ingredients=tuple(f.ingredient() for f in self.setup.factors if f.name not in refused),
            confidence=self.setup.confidence,
            rarest=self.setup.rarest,
            not_together=frozenset(barred),
            most_of_grid=most_of_grid,
        )

    @property
    def grid(self) -> int:
        return full_grid(self.plan(), self.tally)

    def drop_data(self, keep: Sequence[str]) -> None:
        """Deletes the rewritten files, except those in `keep`."""
        data = self.folder / "data"
        try:
            names = names_in(data, self.folder)
        except FileNotFoundError:
            return
        labels = {factor.name for factor in self.setup.factors}
        for name in names:
            if name not in keep and labels.issuperset(name.split(LABEL_JOINT)):
                remove_if_possible(data / name, self.folder)
        with contextlib.suppress(OSError):  # not empty
            data.rmdir()


# --- carrying it out -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BisectLimits(Limits):
    # None: no such limit
    max_runs: int | None = None
    most_of_grid: float | None = 0.4

    @classmethod
    def of(cls, study: BisectStudy, budget_s: float | None, max_runs: int | None) -> Self:
        # A command has few ingredients: less than the whole grid would leave flaky ones unsure.
        share = 1.0 if isinstance(study.setup, CommandExperiment) else 0.4
        return cls(
            budget_s=budget_s,
            max_runs=max_runs,
            most_of_grid=share if max_runs is None else None,
        )

    def most(self, study: BisectStudy) -> int | None:
        """The counted runs that the study may take."""
        return self.max_runs or most_runs(study.plan(self.most_of_grid))


def carry_on(
    study: BisectStudy, limits: BisectLimits, watcher: Watcher[Trial, BisectRun]
) -> BisectVerdict:
    """Runs until the verdict or the limit."""
    carry_out(study, _TrialPlanner(study, limits), limits, watcher)
    plan, tally = study.plan(limits.most_of_grid), study.tally
    verdict = judge(plan, tally)
    if isinstance(verdict, BisectVerdict):
        return verdict
    return replace(believed(plan, tally), kind="unsure", culprit=())


@dataclass(frozen=True)
class _TrialPlanner(Planner[Trial, BisectRun]):
    """One run at a time: each result may change the next choice."""

    study: BisectStudy
    limits: BisectLimits

    def next_tasks(self, budget_left_s: float | None) -> Sequence[Trial]:
        study, setup, most = self.study, self.study.setup, self.limits.max_runs
        if budget_left_s is not None and budget_left_s <= 0:
            return ()
        if most is not None and len(study.counted) >= most:
            return ()
        found = judge(study.plan(self.limits.most_of_grid), study.tally)
        if isinstance(found, BisectVerdict):
            return ()
        number = len(study.runs) + 1
        names = tuple(factor.name for factor in setup.chosen(found.ablate))
        return [Trial(run=number, ablated=names, seed=setup.seed + number)]

    def start(self, task: Trial) -> StartedRun | FinishedRun[BisectRun]:
        study = self.study
        return study.setup.start(task, study.folder, allow_remote=study.allow_remote)

    def finish(self, task: Trial, run: StartedRun) -> FinishedRun[BisectRun]:
        return self.study.setup.finish(task, run, self.study.runs)
