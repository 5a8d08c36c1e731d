"""Which drawings a study's page has, in the order of interest."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.output import words
from ttf.tools.ab.page._arms import Arm, arms_of
from ttf.tools.ab.page._figure import Axes, Curve, curves, dots, stepped
from ttf.tools.ab.page._means import mean_curve
from ttf.tools.ab.sample import Sample
from ttf.tools.report.page._chart import Point, highest, thin
from ttf.tools.report.page._timeline import time_unit

RECALL: Final = "recall@10"
_FEWEST: Final = 12
"""Points of a line, however many lines there are."""


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much there is room for."""

    points: int
    """Of all faint lines of a drawing together."""
    rows: int
    """Of the table of samples."""
    titles: bool = True
    """Each dot says which repeat it is, to whom points at it."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What the drawings are made of."""

    analysis: Analysis
    samples: Sequence[Sample]
    detail: Detail

    @property
    def arms(self) -> list[Arm]:
        return arms_of([arm.name for arm in self.analysis.arms])

    def counted(self, arm: Arm) -> list[Sample]:
        return [s for s in self.samples if s.arm == arm.name and s.counted]

    @property
    def lines(self) -> int:
        """Of an arm, at most."""
        return max(3, self.detail.points // _FEWEST // max(1, len(self.analysis.arms)))

    @property
    def each(self) -> int:
        """Points of one line."""
        lines = sum(min(self.lines, len(self.counted(arm))) for arm in self.arms)
        return max(_FEWEST, min(120, self.detail.points // max(1, lines)))


def plots(study: Study) -> Iterator[str]:
    """'' where nothing was measured."""
    yield _survival(study)
    yield _dots(study, "samples_per_s", "Throughput, samples/s", lambda s: s.samples_per_s)
    yield _dots(study, "peak_anon_mb", "Peak memory, MB", lambda s: s.peak_anon_mb)
    yield _memory(study)
    yield _recall(study, "time", lambda e: e[0])
    yield _recall(study, "steps", lambda e: e[1])
    yield _loss(study)


def _survival(study: Study) -> str:
    lines, told = [], []
    for arm, summary in zip(study.arms, study.analysis.arms, strict=True):
        samples = study.counted(arm)
        if not samples:
            continue
        curve = summary.survival or ((0.0, 1.0, 1.0, 1.0),)
        until = max(_lasted(s) for s in samples)
        low = stepped([(x, a) for x, _, a, _ in curve], until)
        high = stepped([(x, b) for x, _, _, b in curve], until)
        ended = sorted({s.steps for s in samples if s.first_crash is None})
        lines.append(
            Curve(
                arm=arm,
                points=stepped([(x, y) for x, y, _, _ in curve], until),
                band=[(x, a, b) for (x, a), (_, b) in zip(low, high, strict=True)],
                notches=[(float(x), _share(curve, x)) for x in ended],
            )
        )
        told.append(f"{arm.letter}: {words.crash_count(summary)} crashed")
    if not any(s.crashed for s in study.samples):
        under = "No repeat crashed."
    else:
        under = (
            f"Band: {words.percent(study.analysis.confidence)} interval; a line without one never "
            "crashed. Notch: a repeat ended there without a crash."
        )
    axes = Axes(x_label="optimizer steps", x_text=_count, y_text=words.percent, y=(0.0, 1.0))
    title = "Repeats that have not crashed yet"
    return curves(title, lines, axes, told="; ".join(told), under=under)


def _lasted(sample: Sample) -> float:
    return float(sample.steps if sample.first_crash is None else sample.first_crash)


def _share(curve: Sequence[tuple[float, float, float, float]], step: float) -> float:
    return [share for at, share, _, _ in curve if at <= step][-1]


def _dots(study: Study, metric: str, title: str, read: Callable[[Sample], float | None]) -> str:
    values: dict[Arm, Mapping[int, float]] = {}
    crashed: set[tuple[str, int]] = set()
    for arm in study.arms:
        samples = study.counted(arm)
        values[arm] = {s.block: v for s in samples if (v := read(s)) is not None}
        crashed |= {(arm.name, s.block) for s in samples if s.crashed}
    told = "; ".join(
        f"{arm.letter}: {_spread(metric, list(v.values()))}" for arm, v in values.items()
    )

    def name_of(arm: Arm, block: int) -> str:
        if not study.detail.titles:
            return ""
        more = ", crashed" if (arm.name, block) in crashed else ""
        return f"{arm.letter}, block {block}: {words.figure(metric, values[arm][block])}{more}"

    under = "A dot a repeat; lines join a pair; bar: the median."
    if crashed and any((a.name, b) in crashed for a, v in values.items() for b in v):
        under += " Hollow: it crashed on the way."
    return dots(
        title,
        values,
        _count,
        told=told,
        under=under,
        name_of=name_of,
        hollow=lambda arm, block: (arm.name, block) in crashed,
    )


def _spread(metric: str, values: Sequence[float]) -> str:
    if not values:
        return "none"
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"median {words.figure(metric, middle)} ({words.figure(metric, low)} to {words.figure(metric, high)})"


def _memory(study: Study) -> str:
    longest = max((s.memory[-1][0] for s in study.samples if s.memory), default=0.0)
    scale, unit = time_unit(longest)

    def read(sample: Sample) -> Sequence[Point]:
        return [(x / scale, y) for x, y in highest(sample.memory, study.each)]

    axes = Axes(x_label=unit, x_text=_count, y_text=_count, y=(0.0, 0.0))
    return _family(
        study,
        "Memory along the run, MB",
        read,
        axes,
        lambda c: f"up to {max(y for _, y in c):,.0f}",
    )


def _loss(study: Study) -> str:
    axes = Axes(x_label="optimizer steps", x_text=_count, y_text=_short)

    def read(sample: Sample) -> Sequence[Point]:
        return thin(sample.loss, study.each)

    return _family(study, "Loss", read, axes, lambda c: f"ends at {c[-1][1]:.3f}")


def _recall(study: Study, against: str, at: Callable[[tuple[float, int]], float]) -> str:
    longest = max((e.seconds for s in study.samples for e in s.evaluated), default=0.0)
    scale, unit = (1.0, "optimizer steps") if against == "steps" else time_unit(longest)

    def read(sample: Sample) -> Sequence[Point]:
        return [
            (at((e.seconds, e.step)) / scale, e.metrics[RECALL])
            for e in sample.evaluated
            if RECALL in e.metrics
        ]

    axes = Axes(x_label=unit, x_text=_count, y_text=_short)
    title = f"{RECALL} against {against}"
    return _family(study, title, read, axes, lambda c: f"ends at {c[-1][1]:.3f}")


def _family(
    study: Study,
    title: str,
    read: Callable[[Sample], Sequence[Point]],
    axes: Axes,
    told_of: Callable[[Sequence[Point]], str],
) -> str:
    """A faint line a repeat and their mean; of a single repeat its own line."""
    lines: list[Curve] = []
    told, left_out = [], 0
    for arm in study.arms:
        found = [points for s in study.counted(arm) if (points := read(s))]
        mean = mean_curve(found)
        drawn = found[: study.lines]
        left_out += len(found) - len(drawn)
        lines += [Curve(arm=arm, points=points, faint=len(found) > 1) for points in drawn]
        if mean:
            lines.append(Curve(arm=arm, points=mean))
        if found:
            told.append(f"{arm.letter}: {told_of(mean or found[0])}")
    under = ""
    if any(line.faint for line in lines):
        which = f"the first {study.lines} repeats of an arm" if left_out else "a repeat each"
        under = f"Faint: {which}. Strong: the mean of all, while most of them last."
    return curves(title, lines, axes, told="; ".join(told), under=under)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def _short(value: float) -> str:
    return f"{value:.4g}"
