"""What a person sees of a study while it runs: a line a repeat, on standard error."""

from __future__ import annotations

import click

from ttf.tools.ab.sample import Sample
from ttf.tools.ab.schedule import Cell
from ttf.tools.ab.study import Study


class Lines:
    """The first half of a line comes when a repeat begins, where one runs at a time."""

    def __init__(self, parallel: int) -> None:
        self._halves = parallel == 1

    def starts(self, study: Study, cell: Cell) -> None:
        if self._halves:
            _say(f"{_head(study, cell.arm, len(study.done) + 1)} ... ", end="")

    def ended(self, study: Study, sample: Sample, left_s: float | None) -> None:
        head = "" if self._halves else f"{_head(study, sample.arm, len(study.done))}: "
        left = f"; about {duration(left_s)} left" if left_s else ""
        _say(f"{head}{told(sample)}{left}")

    def says(self, text: str) -> None:
        _say(text)


def _say(text: str, end: str = "\n") -> None:
    click.echo(text + end, err=True, nl=False)  # also where standard error is closed


class Nobody:
    """Watches, and says nothing."""

    def starts(self, study: Study, cell: Cell) -> None: ...

    def ended(self, study: Study, sample: Sample, left_s: float | None) -> None: ...

    def says(self, text: str) -> None: ...


def _head(study: Study, arm: str, count: int) -> str:
    width = max(map(len, study.setup.names))
    return f"repeat {count} of {len(study.setup.cells)}  {arm.ljust(width)}"


def told(sample: Sample) -> str:
    """How it ended, and its figures."""
    if sample.outcome == "void":
        return "ended by somebody else: it will be repeated"
    figures: list[str] = [sample.outcome]
    if sample.incidents:
        classes = dict.fromkeys(incident.name for incident in sample.incidents)
        figures = [f"{sample.outcome.upper()} ({', '.join(classes)})"]
    if sample.samples_per_s is not None:
        figures.append(f"{sample.samples_per_s:,.0f} samples/s")
    if sample.peak_anon_mb is not None:
        figures.append(f"{sample.peak_anon_mb:,.0f} MB")
    if sample.wall_s is not None:
        figures.append(f"{sample.wall_s:.1f} s")
    return ", ".join(figures)


def duration(seconds: float) -> str:
    """As a person says it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
