"""The studies of `ttf tune`: trials until the time is used up, then the last run.

trials.jsonl  a line for each finished trial
clock.json    the seconds used so far
runs/NNN/     of each trial: run.toml, summary.json, incidents; runs/NNN.toml is what it was given
best.toml     the configuration that won
best/         the last run, on all training pairs
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from ttf.errors import ConfigError, GaveUp
from ttf.rundir.typed_json import dataclass_from
from ttf.text.numbers import duration
from ttf.tools.studies.carry_out import Limits, Planner, Watcher, carry_out
from ttf.tools.studies.child import ask
from ttf.tools.studies.one_run import FinishedRun, StartedRun
from ttf.tools.studies.same_data import data_of, fingerprints
from ttf.tools.studies.study import Study, sha256_of
from ttf.tools.tune import search, space as spaces
from ttf.tools.tune.runs import TrialRun, behind_at, finish_trial, scores_so_far, start_trial
from ttf.tools.tune.setup import MOST_TRIALS, TuneFacts, TuneSetup
from ttf.tools.tune.time_left import Clock, checked_share, trial_limit_s
from ttf.tools.tune.trial import TuneTrial, best_of, folder_name

BUDGET_S: Final = 600.0
_FACTS: Final = "ttf.tools.tune.facts:look"
_TOWERS: Final = ("tower.query.", "tower.doc.")


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What the user asked for."""

    toml: Path | None = None
    sets: tuple[str, ...] = ()
    flags: Mapping[str, Any]
    safe: bool = False
    seed: int = 0
    budget_s: float = BUDGET_S
    trials: int | None = None

    @property
    def identity(self) -> str:
        file = None if self.toml is None else (str(self.toml.absolute()), sha256_of(self.toml))
        flags = {name: str(value) for name, value in self.flags.items()}
        asked = [file, self.sets, flags, self.safe, self.seed, str(Path.cwd())]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


class TuneStudy(Study[TuneSetup, TuneTrial]):
    COMMAND = "tune"
    JOURNAL = "trials.jsonl"
    PAGES = ("best", "best.toml", "clock.json", "report.html")
    FOLDERS = ("runs", "best")
    RUN_NOUN = "trial"

    def settings(self) -> dict[str, Any]:
        return {"setup": asdict(self.setup)}

    @classmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        setup = dataclass_from(TuneSetup, settings["setup"])
        if setup.problem:
            raise ValueError(setup.problem)
        runs = [dataclass_from(TuneTrial, line) for line in lines]
        dimensions = {dimension.key: dimension for dimension in setup.space}
        for run in runs:
            wrong = [k for k, v in run.point.items() if not dimensions[k].holds(v)]
            if wrong or not 1 <= run.number <= MOST_TRIALS:
                raise ValueError(f"There is no trial {run.number} with {', '.join(wrong)}.")
        return cls(folder=folder, setup=setup, runs=runs)

    def kept_runs(self) -> set[str]:
        return {folder_name(run.number) for run in self.runs if run.counted}

    @property
    def counted(self) -> list[TuneTrial]:
        return [run for run in self.runs if run.counted]

    @property
    def best(self) -> TuneTrial | None:
        return best_of(self.runs)

    @property
    def best_toml(self) -> Path:
        return self.folder / "best.toml"

    @property
    def best_run(self) -> Path:
        return self.folder / "best"

    def clock(self, began: float) -> Clock:
        return Clock(self.folder, began)


# --- begun ---------------------------------------------------------------------------------------


def begin(request: TuneRequest, out: Path | None, say: Callable[[str], None]) -> TuneStudy:
    """A new study, or the unfinished one that the same command began; locked.

    Raises ConfigError before the folder is made, also for a budget that is too small.
    """
    search.require()
    folder = TuneStudy.find(request.identity, out)
    if folder is not None:
        return TuneStudy.open(folder)
    setup = prepare(request)
    if setup.problem:
        raise ConfigError(setup.problem)
    if not setup.space:
        raise ConfigError(
            "Nothing is left to vary: every value that ttf tune can set was given as a flag.",
            hint="Write values into RUN.toml instead: the search then starts there.",
        )
    if setup.share < 1:
        say(
            f"A full run takes about {setup.facts.predicted_s:.0f} s here: each trial takes "
            f"{setup.share:.0%} of the steps of a full run."
        )
    return TuneStudy(folder=TuneStudy.new_folder(out), setup=setup).begin()


def prepare(request: TuneRequest) -> TuneSetup:
    """Looks at configuration and data in a child process."""
    flags = {name: str(v) if isinstance(v, Path) else v for name, v in request.flags.items()}
    asked = {
        "toml": None if request.toml is None else str(request.toml.absolute()),
        "sets": list(request.sets),
        "flags": flags,
        "safe": request.safe,
    }
    found = ask(_FACTS, asked, to="read the configuration and the data")
    return setup_from(found, request)


def setup_from(found: Mapping[str, Any], request: TuneRequest) -> TuneSetup:
    settled, config = found["settled"], found["config"]
    space = spaces.space_of(found)
    given = dict(_leaves((), config))
    searched = {dimension.key for dimension in space}
    of_towers = {key for key in given if key.startswith(_TOWERS)}
    start = {k: v for k, v in given.items() if k in searched | of_towers}
    facts = TuneFacts(
        pairs=found["pairs"],
        trial_pairs=found["trial_pairs"],
        held_out=found["held_out"],
        val=found["val"],
        bank=found["bank"],
        predicted_s=found["predicted_s"],
        calibration_s=found["calibration_s"],
    )
    return TuneSetup(
        base=_without(config, set(start)),
        origins={k: o for k, o in found["origins"].items() if o != "default"},
        start=start,
        start_point=spaces.start_point(space, settled),
        settled=settled,
        start_steps=found["steps"],
        space=space,
        first=spaces.first_points(space),
        hold_out=found["hold_out"],
        share=checked_share(request.budget_s, facts.predicted_s),
        metric=settled["evaluate.metric"],
        seed=request.seed,
        budget_s=request.budget_s,
        trials=request.trials,
        facts=facts,
        cwd=str(Path.cwd()),
        asked=request.identity,
        data_seen=fingerprints(data_of(settled, Path.cwd())),
    )


def _leaves(path: tuple[str, ...], tree: Mapping[str, Any]) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for name, value in tree.items():
        inner = (*path, name)
        out += _leaves(inner, value) if isinstance(value, Mapping) else [(".".join(inner), value)]
    return out


def _without(tree: Mapping[str, Any], keys: set[str], path: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        name: _without(value, keys, (*path, name)) if isinstance(value, Mapping) else value
        for name, value in tree.items()
        if ".".join((*path, name)) not in keys
    }


# --- carried out ---------------------------------------------------------------------------------


class TuneWatcher(Watcher[TuneTrial, TuneTrial]):
    def working(self, task: TuneTrial, scores: Sequence[float], seconds: float) -> None:
        """Called now and then while a trial runs."""


def search_on(
    study: TuneStudy, clock: Clock, budget_s: float, trials: int | None, watcher: TuneWatcher
) -> None:
    """Runs trials until the time or their number is used up.

    Does nothing once the last run has begun: another best would not be the one that it trains.
    Raises GaveUp if none finished, ConfigError if the time is too short for the first, and the
    error of the start if that cannot run.
    """
    if (study.best_run / "run.toml").is_file() and study.best is not None:
        return
    planner = _Searching(study, clock, budget_s, trials, watcher)
    limits = Limits(budget_s=max(0.0, budget_s - clock.used_s))
    try:
        carry_out(study, planner, limits, watcher)
    finally:
        clock.keep(now=True)
    if study.runs and study.runs[-1].outcome == "cut" and not study.counted:
        raise ConfigError(
            f"Your configuration did not end as a trial within {study.runs[-1].seconds:.0f} s, so a "
            f"full run does not fit into the budget of {duration(budget_s)}: it takes longer here "
            f"than the {study.setup.facts.predicted_s:.0f} s that were predicted.",
            hint=f"{study.resume_command(study.folder)} --budget {math.ceil(3 * budget_s / 60)}m",
        )
    if study.best is None:
        reasons = [run.reason for run in study.counted if run.reason]
        last = f" The last one: {reasons[-1]}" if reasons else ""
        raise GaveUp(
            f"No trial finished, of {len(study.runs)}.{last}",
            hint="Try the configuration alone, with ttf train; or give more time with --budget.",
        )


@dataclass
class _Searching(Planner[TuneTrial, TuneTrial]):
    """One trial at a time: each result may change the next choice, and two would share the
    processor."""

    study: TuneStudy
    clock: Clock
    budget_s: float
    trials: int | None
    watcher: TuneWatcher
    limit_s: float | None = None

    def next_tasks(self, budget_left_s: float | None) -> Sequence[TuneTrial]:
        study, done = self.study, self.study.counted
        if self.trials is not None and len(done) >= self.trials:
            return ()
        if study.runs and study.runs[-1].outcome == "cut" and self.limit_s is not None:
            return ()  # The time was used up in this sitting.
        self.limit_s = trial_limit_s(study.setup, done, self.budget_s - self.clock.used_s)
        if self.limit_s is None:
            return ()
        number = len(done) + 1
        point = study.setup.start_point
        if number > 1:
            point = search.next_point(study.setup, done, number)
        return [TuneTrial(number=number, point=point)]

    def start(self, task: TuneTrial) -> StartedRun | FinishedRun[TuneTrial]:
        study, setup = self.study, self.study.setup
        steps = setup.steps_of(task.point if task.number > 1 else {})

        def hopeless(run: TrialRun) -> bool:
            self.clock.keep()
            scores = scores_so_far(setup, run.folder, steps)
            self.watcher.working(task, scores, run.seconds)
            return behind_at(scores, steps, self._hopeless(task)) is not None

        return start_trial(
            setup,
            task,
            study.folder,
            limit_s=self.limit_s,
            hopeless=hopeless,
            allow_remote=study.allow_remote,
        )

    def finish(self, task: TuneTrial, run: StartedRun) -> FinishedRun[TuneTrial]:
        self.clock.keep(now=True)
        return finish_trial(self.study.setup, task, run, self._hopeless(task))

    def _hopeless(self, task: TuneTrial) -> Callable[[Sequence[float]], bool]:
        study = self.study
        return partial(search.is_hopeless, study.setup, study.counted, task.point)
