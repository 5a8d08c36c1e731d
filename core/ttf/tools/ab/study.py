"""The studies of `ttf ab`: begun or continued, every arm repeated in a fixed schedule of blocks.

samples.jsonl  a line for each finished repeat
runs/BLOCK-ARM kept files of each repeat
"""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from ttf.errors import ConfigError
from ttf.host.version import __version__
from ttf.rundir.removing import remove_if_there
from ttf.rundir.typed_json import dataclass_from
from ttf.text.shell import quoted
from ttf.tools.ab.arms import arms_from, check_arms
from ttf.tools.ab.commands import arms_of, as_text, terms_of
from ttf.tools.ab.hosts.blocks import SPOILED, parts_of_others
from ttf.tools.ab.measures import METRICS
from ttf.tools.ab.repeat import finish_repeat, run_folder_name, start_repeat
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import ABSetup, Better, Cell, next_wave
from ttf.tools.studies.carry_out import Limits, Planner, Watcher, carry_out
from ttf.tools.studies.one_run import FinishedRun, StartedRun
from ttf.tools.studies.same_data import fingerprints
from ttf.tools.studies.started_here import WouldRun
from ttf.tools.studies.study import RESULT, Study
from ttf.tools.tickets.facts import host_name

# all repeats are done; a sequential study needs no more; the time is used up
Reason = Literal["all", "settled", "budget"]


@dataclass(kw_only=True)
class StudyRecord:
    """How the study was carried out."""

    command: str = ""
    machine: str = ""
    parallel: int = 1  # the most repeats that ran at a time
    # blocks after which a sequential study was judged
    looks: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class ABStudy(Study[ABSetup, Sample]):
    """Only the number of repeats in its setup may change, and only grow."""

    COMMAND = "ab"
    JOURNAL = "samples.jsonl"
    PAGES = ("samples.csv", "report.md", "report.html")
    RUN_NOUN = "repeat"

    record: StudyRecord = field(default_factory=StudyRecord)

    def settings(self) -> dict[str, Any]:
        setup = asdict(self.setup)
        if not self.setup.data_seen:  # as before there were fingerprints
            del setup["data_seen"]
        if self.setup.commands is None:  # as before there were arms that are commands
            del setup["commands"]
            for arm in setup["arms"]:
                del arm["words"]
        return {"setup": setup, "record": asdict(self.record)}

    def line(self, run: Sample) -> dict[str, Any]:
        values = asdict(run)
        if not run.host:  # as before there were several hosts
            for name in ("host", "attempt", "folder"):
                del values[name]
        return values

    @classmethod
    def restored(
        cls, folder: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
    ) -> Self:
        setup = dataclass_from(ABSetup, settings["setup"])
        runs = [dataclass_from(Sample, line) for line in lines]
        if setup.problem:
            raise ValueError(setup.problem)
        for run in runs:
            if problem := setup.problem_with(run):
                raise ValueError(problem)
        record = dataclass_from(StudyRecord, settings.get("record", {}))
        return cls(folder=folder, setup=setup, runs=runs, record=record)

    @classmethod
    def would_run(cls, setup: ABSetup) -> WouldRun | None:
        if setup.commands is None:
            return None
        words = tuple(arm.words for arm in setup.arms)
        return WouldRun(commands=words, cwd=setup.cwd, pins=setup.commands.pins)

    def repeat_command(self, folder: Path) -> str:
        # Not the names of the arms: what a name says need not be what runs.
        texts = [f"--command {quoted(as_text(arm.words))}" for arm in self.setup.arms]
        return " ".join([self.resume_command(folder), *texts])

    def kept_runs(self) -> set[str]:
        return {run_folder_name(self.setup, s.arm, s.block) for s in self.runs if s.counted}

    @classmethod
    def reopened(
        cls,
        folder: Path,
        repeats: int | None = None,
        *,
        allow_remote: bool = True,
        given: ABSetup | None = None,
    ) -> Self:
        """Locks a study to continue it, with more repeats if given; `given` as for `open`."""
        study = cls.open(folder, allow_remote=allow_remote, given=given)
        try:
            if repeats is not None:
                study.extend(repeats)
        except BaseException:
            study.close()
            raise
        return study

    def extend(self, repeats: int) -> None:
        """Raises ConfigError for fewer repeats, or for more repeats of a sequential study."""
        if repeats < self.setup.repeats:
            raise ConfigError(
                f"The study in {self.folder} has {self.setup.repeats} repeats. You can add "
                "repeats, but not remove them.",
                hint="To end a study early, use --budget.",
            )
        if repeats > self.setup.repeats and self.setup.sequential:
            raise ConfigError(
                "You cannot add repeats to a sequential study: the number of repeats determines "
                "when the study is evaluated.",
                hint="Start a new study with more --repeats.",
            )
        if repeats > self.setup.repeats:
            setup = replace(self.setup, repeats=repeats)
            if setup.problem:
                raise ConfigError(setup.problem)
            self.setup = setup
            remove_if_there(self.folder / RESULT, self.folder)
            self.write_settings()

    def void(self, samples: Sequence[Sample], reason: str) -> None:
        """They do not count any more, and their repeats are done again. Durable when this returns."""
        if samples:
            gone = [id(sample) for sample in samples]
            self.runs = [
                replace(run, outcome="void", reason=reason) if id(run) in gone else run
                for run in self.runs
            ]
            self.write_journal()

    @property
    def done(self) -> set[tuple[int, str]]:
        """(block, arm) of the counted repeats."""
        return {(s.block, s.arm) for s in self.runs if s.counted}

    @property
    def blocks(self) -> int:
        """Complete blocks."""
        done = [block for block, _ in self.done]
        return sum(done.count(block) == len(self.setup.arms) for block in set(done))

    def expected_s(self, repeats: int, parallel: int) -> float | None:
        """The time for these repeats, from the finished ones; None before the first."""
        known = [s.wall_s for s in self.runs if s.counted and s.wall_s is not None]
        return statistics.fmean(known) * math.ceil(repeats / parallel) if known else None


def new_record(command: str) -> StudyRecord:
    from ttf.machine.processor import usable_threads

    threads = usable_threads()
    machine = (
        f"{platform.system()} {platform.machine()}, {threads} thread{'s' * (threads != 1)}; "
        f"ttf {__version__}, Python {platform.python_version()}"
    )
    return StudyRecord(command=command, machine=machine)


# --- carrying it out -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ABLimits(Limits):
    keep_runs: bool = False


def carry_on(
    study: ABStudy,
    limits: ABLimits,
    watcher: Watcher[Cell, Sample],
    settled: Callable[[ABStudy], bool],
) -> Reason:
    """Runs the missing repeats, and returns why it ended.

    `settled` is called before every block of a sequential study. Raises the error of a repeat that
    could not run.
    """
    noted_load(study, limits)
    if any(run.host for run in study.runs):
        here = ("", host_name())
        study.void(parts_of_others(study.setup.cells, study.runs, here), SPOILED)
    planner = _BlockPlanner(study, limits, settled)
    carry_out(study, planner, limits, watcher)
    return planner.reason


def noted_load(study: ABStudy, limits: ABLimits) -> None:
    if limits.parallel > study.record.parallel:
        study.record.parallel = limits.parallel
        study.write_settings()


@dataclass
class _BlockPlanner(Planner[Cell, Sample]):
    """Whole blocks: half a pair has no information."""

    study: ABStudy
    limits: ABLimits
    settled: Callable[[ABStudy], bool]
    reason: Reason = "all"

    def next_tasks(self, budget_left_s: float | None) -> Sequence[Cell]:
        study, parallel = self.study, self.limits.parallel
        wave = next_wave(study.setup.cells, study.done, len(study.setup.arms), parallel)
        if not wave:
            return ()
        if study.setup.sequential and self.settled(study):
            self.reason = "settled"
            return ()
        expected_s = study.expected_s(len(wave), parallel) or 0.0
        if budget_left_s is not None and (budget_left_s <= 0 or expected_s > budget_left_s):
            self.reason = "budget"
            return ()
        return wave

    def start(self, task: Cell) -> StartedRun | FinishedRun[Sample]:
        study = self.study
        return start_repeat(study.setup, task, study.folder, allow_remote=study.allow_remote)

    def finish(self, task: Cell, run: StartedRun) -> FinishedRun[Sample]:
        return finish_repeat(self.study.setup, task, run, keep=self.limits.keep_runs)


def begin(
    files: Sequence[Path],
    *,
    vary: Sequence[str] = (),
    sets: Sequence[str] = (),
    steps: int | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    command: str = "",
    **setup_fields: Any,
) -> ABStudy:
    """A new or earlier study, locked; `setup_fields` are those of ABSetup.

    Raises ConfigError with all problems before the folder is made.
    """
    setup = files_setup(files, vary=vary, sets=sets, steps=steps, say=say, **setup_fields)
    return _new_or_earlier(setup, out, command)


def files_setup(
    files: Sequence[Path],
    *,
    vary: Sequence[str] = (),
    sets: Sequence[str] = (),
    steps: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    **setup_fields: Any,
) -> ABSetup:
    """What a user who gives these files here wants to compare. Raises ConfigError."""
    arms, notes, data = check_arms(arms_from(files, vary), sets, steps)
    for note in notes:
        say(note)
    return ABSetup(
        arms=arms,
        sets=tuple(sets),
        steps=steps,
        cwd=str(Path.cwd()),
        data_seen=fingerprints(data),
        **setup_fields,
    )


def begin_commands(
    texts: Sequence[str],
    *,
    metric: str | None = None,
    better: Better = "lower",
    run_limit_s: float | None = None,
    out: Path | None = None,
    command: str = "",
    margins: Mapping[str, float] | None = None,
    **setup_fields: Any,
) -> ABStudy:
    """As `begin`, of anybody's commands."""
    own = {METRICS[better] if name == "metric" else name: m for name, m in (margins or {}).items()}
    setup = commands_setup(
        texts, metric=metric, better=better, run_limit_s=run_limit_s, margins=own, **setup_fields
    )
    return _new_or_earlier(setup, out, command)


def commands_setup(
    texts: Sequence[str],
    *,
    metric: str | None = None,
    better: Better = "lower",
    run_limit_s: float | None = None,
    **setup_fields: Any,
) -> ABSetup:
    """What a user who gives these commands here wants to run."""
    arms = arms_of(texts)
    terms = terms_of(arms, metric=metric, better=better, run_limit_s=run_limit_s)
    return ABSetup(arms=arms, cwd=str(Path.cwd()), commands=terms, **setup_fields)


def _new_or_earlier(setup: ABSetup, out: Path | None, command: str) -> ABStudy:
    if setup.problem:
        raise ConfigError(setup.problem)
    folder = ABStudy.find(setup.identity, out)
    if folder is not None:
        return ABStudy.open(folder, given=setup)
    record = new_record(command)
    return ABStudy(folder=ABStudy.new_folder(out), setup=setup, record=record).begin()
