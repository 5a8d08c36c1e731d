"""The drawings of a study's page, in the order of interest."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.measures import MEASURES
from ttf.tools.ab.output import words
from ttf.tools.ab.page._arms import arms_of
from ttf.tools.ab.page._dots import Dot, dot_chart
from ttf.tools.ab.sample import EvalPoint, Sample
from ttf.tools.report.charts.axes import count
from ttf.tools.report.charts.curves import highest, stepped, thin
from ttf.tools.report.charts.figure import Figure, Look, Point
from ttf.tools.report.charts.lines import Axes, Line, line_chart
from ttf.tools.report.page._timeline import time_unit

RECALL: Final = "recall@10"
_STEPS: Final = "optimizer steps"
_FEWEST: Final = 12  # fewest points of a line


@dataclass(frozen=True, kw_only=True)
class Detail:
    """The amount of detail that fits on the page."""

    points: int  # of all faint lines of a drawing together
    rows: int  # of the table of samples
    titles: bool = True  # each dot names its repeat in a tooltip


@dataclass(frozen=True, kw_only=True)
class Study:
    """The data of the drawings."""

    analysis: Analysis
    samples: Sequence[Sample]
    detail: Detail

    @property
    def arms(self) -> list[Look]:
        return list(arms_of([arm.name for arm in self.analysis.arms]).values())

    def counted(self, arm: Look) -> list[Sample]:
        return self._by_arm.get(arm.name, [])

    @cached_property
    def _by_arm(self) -> dict[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        for sample in self.samples:
            if sample.counted:
                found.setdefault(sample.arm, []).append(sample)
        return found

    @property
    def lines(self) -> int:
        """Most lines of an arm."""
        return max(3, self.detail.points // _FEWEST // max(1, len(self.analysis.arms)))

    @cached_property
    def each(self) -> int:
        """Points of one line."""
        lines = sum(min(self.lines, len(self.counted(arm))) for arm in self.arms)
        return max(_FEWEST, min(120, self.detail.points // max(1, lines)))


def plots(study: Study) -> list[Figure]:
    if words.of_commands(study.analysis):
        titles = {"seconds": "Time, s", "peak_anon_mb": "Peak memory, MB"}
        return [
            _dots(study, name, titles.get(name, "Metric"), MEASURES[name].read)
            for name in words.columns(study.analysis)
        ]
    return [
        _survival(study),
        _dots(study, "samples_per_s", "Throughput, samples/s", lambda s: s.samples_per_s),
        _dots(study, "peak_anon_mb", "Peak memory, MB", lambda s: s.peak_anon_mb),
        _memory(study),
        _recall(study, "time", lambda e: e.seconds),
        _recall(study, "steps", lambda e: e.step),
        _loss(study),
    ]


def _survival(study: Study) -> Figure:
    lines, alt = [], []
    for arm, summary in zip(study.arms, study.analysis.arms, strict=True):
        samples = study.counted(arm)
        if not samples:
            continue
        curve = summary.survival or ((0.0, 1.0, 1.0, 1.0),)
        corners = stepped(curve, float(max(s.lasted for s in samples)))
        ended = sorted({s.steps for s in samples if s.first_crash is None})
        lines.append(
            Line(
                look=arm,
                points=[(x, y) for x, y, _, _ in corners],
                band=[(x, low, high) for x, _, low, high in corners],
                notches=[(float(x), _share(curve, x)) for x in ended],
            )
        )
        alt.append(f"{arm.letter}: {words.crash_count(summary)} crashed")
    if not any(s.crashed for s in study.samples):
        under = "No repeat crashed."
    else:
        under = (
            f"Band: {words.percent(study.analysis.confidence)} interval; a line without a band "
            "never crashed. Notch: a repeat ended there without a crash."
        )
    axes = Axes(x_label=_STEPS, y_text=words.percent, x=(0.0,), y=(0.0, 1.0))
    title = "Repeats that have not crashed yet"
    return line_chart(title, lines, axes, alt="; ".join(alt), under=under)


def _share(curve: Sequence[tuple[float, float, float, float]], step: float) -> float:
    return [share for at, share, _, _ in curve if at <= step][-1]


def _dots(study: Study, metric: str, title: str, read: Callable[[Sample], float | None]) -> Figure:
    columns = {
        arm: {
            s.block: Dot(value=value, title=_title(study, metric, arm, s, value), hollow=s.crashed)
            for s in study.counted(arm)
            if (value := read(s)) is not None
        }
        for arm in study.arms
    }
    alt = "; ".join(
        f"{arm.letter}: {_spread(metric, [dot.value for dot in dots.values()])}"
        for arm, dots in columns.items()
    )
    under = "Each dot is a repeat. Lines connect a pair. Bar: the median."
    if any(dot.hollow for dots in columns.values() for dot in dots.values()):
        under += " Hollow dot: the repeat crashed, and then finished."
    return dot_chart(title, columns, alt=alt, under=under)


def _title(study: Study, metric: str, arm: Look, sample: Sample, value: float) -> str:
    if not study.detail.titles:
        return ""
    crashed = ", crashed" if sample.crashed else ""
    return f"{arm.letter}, block {sample.block}: {words.figure(metric, value)}{crashed}"


def _spread(metric: str, values: Sequence[float]) -> str:
    if not values:
        return "none"
    low, high = words.figure(metric, min(values)), words.figure(metric, max(values))
    return f"median {words.figure(metric, statistics.median(values))} ({low} to {high})"


def _memory(study: Study) -> Figure:
    scale, unit = time_unit(max((s.memory[-1][0] for s in study.samples if s.memory), default=0.0))
    return _family(
        study,
        "Memory during the run, MB",
        lambda s: [(x / scale, y) for x, y in highest(s.memory, study.each)],
        Axes(x_label=unit, y_text=count, x=(0.0,), y=(0.0,)),
        lambda curve: f"up to {max(y for _, y in curve):,.0f}",
    )


def _loss(study: Study) -> Figure:
    axes = Axes(x_label=_STEPS, x=(0.0,))
    return _family(study, "Loss", lambda s: thin(s.loss, study.each), axes, _end)


def _recall(study: Study, against: str, at: Callable[[EvalPoint], float]) -> Figure:
    longest = max((e.seconds for s in study.samples for e in s.evaluated), default=0.0)
    scale, unit = (1.0, _STEPS) if against == "steps" else time_unit(longest)

    def read(sample: Sample) -> Sequence[Point]:
        found = [e for e in sample.evaluated if RECALL in e.metrics]
        return [(at(e) / scale, e.metrics[RECALL]) for e in found]

    axes = Axes(x_label=unit, x=(0.0,))
    return _family(study, f"{RECALL} against {against}", read, axes, _end)


def _end(curve: Sequence[Point]) -> str:
    return f"ends at {curve[-1][1]:.3f}"


def _family(
    study: Study,
    title: str,
    read: Callable[[Sample], Sequence[Point]],
    axes: Axes,
    summary: Callable[[Sequence[Point]], str],
) -> Figure:
    """A faint line for each repeat and their mean; a single repeat has only its line."""
    lines: list[Line] = []
    alt, left_out = [], 0
    for arm in study.arms:
        found = [points for s in study.counted(arm) if (points := read(s))]
        mean = mean_curve(found)
        drawn = found[: study.lines]
        left_out += len(found) - len(drawn)
        lines += [Line(look=arm, points=points, faint=len(found) > 1) for points in drawn]
        lines.append(Line(look=arm, points=mean))
        if found:
            alt.append(f"{arm.letter}: {summary(mean or found[0])}")
    under = ""
    if any(line.faint for line in lines):
        which = f"the first {study.lines} repeats of an arm" if left_out else "one line per repeat"
        under = (
            f"Thin lines: {which}. Thick line: the mean of all repeats, as long as most of "
            "them run."
        )
    return line_chart(title, lines, axes, alt="; ".join(alt), under=under)


_GRID: Final = 80


def mean_curve(curves: Sequence[Sequence[Point]]) -> list[Point]:
    """At each x the mean of the curves that reach it, as long as more than half of them do.

    Curves that end early would otherwise bend the mean.

    >>> mean_curve([[(0, 1.0), (2, 3.0)], [(0, 3.0), (2, 5.0)]])[-1]
    (2.0, 4.0)
    >>> mean_curve([])
    []
    """
    drawn = [curve for curve in curves if curve]
    if len(drawn) < 2:
        return []
    starts, ends = sorted(c[0][0] for c in drawn), sorted(c[-1][0] for c in drawn)
    grid = np.linspace(starts[len(drawn) // 2], ends[(len(drawn) - 1) // 2], _GRID)
    total, count = np.zeros(_GRID), np.zeros(_GRID)
    for curve in drawn:
        xs, ys = np.array([x for x, _ in curve]), np.array([y for _, y in curve])
        inside = (grid >= xs[0]) & (grid <= xs[-1])
        total[inside] += np.interp(grid[inside], xs, ys)
        count[inside] += 1
    there = count * 2 > len(drawn)
    return [
        (float(x), float(y)) for x, y in zip(grid[there], total[there] / count[there], strict=False)
    ]
