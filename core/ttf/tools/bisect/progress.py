"""The progress of a study on standard error: a line for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttf.text.terminal import echo
from ttf.tools.bisect.experiment import BisectRun, Trial
from ttf.tools.bisect.planner import BisectVerdict, believed
from ttf.tools.bisect.study import BisectStudy
from ttf.tools.studies.carry_out import Watcher
from ttf.tools.studies.one_run import FinishedRun


@dataclass
class RunLines(Watcher[Trial, BisectRun]):
    study: BisectStudy

    def starts(self, task: Trial) -> None:
        what = _ablation_text(task.ablated, [f.name for f in self.study.setup.factors])
        echo(f"{task.run:4d}  {what} ... ", err=True, end="")

    def ended(self, finished: FinishedRun[BisectRun], budget_left_s: float | None) -> None:
        study, run = self.study, finished.run
        left = ""
        if budget_left_s is not None:
            left = f"; {budget_left_s:.0f} s of the budget left"
        belief = _belief(believed(study.plan(), study.tally))
        echo(f"{_ending(run)}, {run.seconds:.1f} s{belief}{left}", err=True)


def _ending(run: BisectRun) -> str:
    if run.result == "crash":
        return f"CRASH {', '.join(run.classes)} ({run.where})"
    if run.result == "invalid":
        return f"could not be tried: {run.reason.splitlines()[0] if run.reason else ''}"
    return (
        "another program or a person ended it; ttf repeats it"
        if run.result == "void"
        else run.result
    )


def _ablation_text(names: Sequence[str], known: Sequence[str]) -> str:
    if not names:
        return "unchanged"
    if len(names) == len(known):
        return "without all ingredients"
    rest = [name for name in known if name not in names]
    if len(rest) < len(names) - 2:
        return f"with only {', '.join(rest)}"
    return f"without {', '.join(names)}"


def _belief(verdict: BisectVerdict) -> str:
    if not verdict.suspects:
        return ""
    names, probability = verdict.suspects[0]
    return f"; suspect: {' with '.join(names) or 'nothing here'} {100 * probability:.0f}%"
