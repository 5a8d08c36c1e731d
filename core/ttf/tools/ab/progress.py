"""The progress of a study on standard error: a line for each repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ttf.text.terminal import echo
from ttf.tools.ab.measures import METRICS
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell
from ttf.tools.ab.study import ABStudy
from ttf.tools.studies.carry_out import Watcher
from ttf.tools.studies.one_run import FinishedRun

_COSTLY: Final = 0.4  # Evaluations against a large bank may take longer than the training.


@dataclass
class RepeatLines(Watcher[Cell, Sample]):
    """The first half of a line comes when a repeat begins, if one runs at a time."""

    study: ABStudy
    parallel: int
    cost_was_shown: bool = False

    def starts(self, task: Cell) -> None:
        if self.parallel == 1:
            _say(f"{self._head(task.arm, len(self.study.done) + 1)} ... ", end="")

    def ended(self, finished: FinishedRun[Sample], budget_left_s: float | None) -> None:
        study, sample = self.study, finished.run
        head = "" if self.parallel == 1 else f"{self._head(sample.arm, len(study.done))}: "
        left_s = study.expected_s(len(study.setup.cells) - len(study.done), self.parallel)
        left = f"; about {rough_duration(left_s)} left" if left_s else ""
        where = f"on {sample.host}: " if sample.host else ""
        _say(f"{head}{where}{ending(sample)}{left}")
        wall_s = sample.wall_s or 0.0
        if not self.cost_was_shown and finished.evaluating_s > _COSTLY * wall_s > 0:
            self.cost_was_shown = True
            _say(
                f"Evaluations took {finished.evaluating_s / wall_s:.0%} of this repeat. With "
                "--set evaluate.every=end, the study is shorter, but it has no recall after equal "
                "time."
            )

    def _head(self, arm: str, number: int) -> str:
        setup = self.study.setup
        return f"repeat {number} of {len(setup.cells)}  {arm.ljust(max(map(len, setup.names)))}"


def _say(text: str, end: str = "\n") -> None:
    echo(text, err=True, end=end)


def ending(sample: Sample) -> str:
    """The outcome and figures of a repeat."""
    if sample.outcome == "void":
        return "another program or a person ended it; ttf repeats it"
    figures: list[str] = [sample.outcome]
    if sample.incidents:
        classes = dict.fromkeys(incident.name for incident in sample.incidents)
        figures = [f"{sample.outcome.upper()} ({', '.join(classes)})"]
    if sample.samples_per_s is not None:
        figures.append(f"{sample.samples_per_s:,.0f} samples/s")
    if sample.peak_anon_mb is not None:
        figures.append(f"{sample.peak_anon_mb:,.0f} MB")
    figures += [f"metric {sample.metrics[m]:g}" for m in METRICS.values() if m in sample.metrics]
    if sample.wall_s is not None:
        figures.append(f"{sample.wall_s:.1f} s")
    return ", ".join(figures)


def rough_duration(seconds: float) -> str:
    """A rounded duration.

    >>> rough_duration(42), rough_duration(200), rough_duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
