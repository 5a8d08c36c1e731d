"""A run's processes, checkpoints and incidents on one time axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ttf.tools.report.charts.axes import END, LEFT, Place, ticks
from ttf.tools.report.charts.figure import Figure, Shape, line, text
from ttf.tools.report.charts.lines import Mark, group
from ttf.tools.report.page._read import RunFiles

_TITLE: Final = "What happened when"
_HEIGHT: Final = 172
_BASE: Final = _HEIGHT - 42
_LANES: Final = {"process": 48, "mining": 72, "evaluation": 92, "checkpoint": 112}
_MOST: Final = 300  # ticks of a lane


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The time axis of a run, in a unit that suits its length."""

    began: float
    ended: float
    scale: float
    unit: str

    def at(self, moment: float) -> float:
        return (moment - self.began) / self.scale


def time_unit(seconds: float) -> tuple[float, str]:
    if seconds > 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds > 120 else (1.0, "seconds")


def clock_of(run: RunFiles) -> Clock | None:
    """None if no line has a time."""
    lines = (run.memory, run.evals, run.mining, run.checkpoints, run.incidents)
    moments = [line["time"] for kind in lines for line in kind if line.get("time", 0) > 0]
    if not moments:
        return None
    began, ended = min(moments), max(moments)
    scale, unit = time_unit(ended - began)
    return Clock(began=began, ended=ended, scale=scale, unit=unit)


def incident_marks(run: RunFiles, clock: Clock) -> list[Mark]:
    # For charts with this clock as axis.
    return [
        Mark(
            at=clock.at(found["time"]),
            label=f"{found['id']} {found['class']}",
            title=f"incident {found['id']}: {found['class']}",
            target=f"incident-{found['id']}",
        )
        for found in run.incidents[-_MOST:]
        if found.get("time", 0) > 0
    ]


def timeline(run: RunFiles) -> Figure:
    clock = clock_of(run)
    if clock is None or not clock.ended > clock.began:
        return Figure(title=_TITLE)
    place = Place(x=(0.0, clock.at(clock.ended)))
    lives = list(_lives(run, clock))
    shapes = [*_axis(place, clock.unit), *_lane("process", "alive" if run.guarded else "trainer")]
    shapes += [_span(place, life, "process", i % 2) for i, life in enumerate(lives)]
    for name, label, lines, colour in (
        ("mining", "mining", run.mining, 2),
        ("evaluation", "eval", run.evals, 4),
        ("checkpoint", "saved", run.checkpoints, 5),
    ):
        spans = list(_spans(lines, clock))
        if spans:
            shapes += _lane(name, label)
            shapes += [_span(place, span, name, colour) for span in spans]
    shapes.append(group([_flag(place, mark) for mark in incident_marks(run, clock)]))
    starts = len(lives)
    under = f"The process was started {starts} times." if starts > 1 else ""
    return Figure(title=_TITLE, shapes=shapes, height=_HEIGHT, under=under)


def _lives(run: RunFiles, clock: Clock) -> Iterator[tuple[float, float]]:
    """From each start to the death, as the lines of memory show them."""
    deaths = sorted(
        float(found["time"])
        for found in run.incidents
        if found.get("time", 0) > 0 and found.get("process") != "miner"
    )
    seen = [float(line["time"]) for line in run.memory if line.get("time", 0) > 0]
    for begin, end in pairwise([clock.began, *deaths, math.inf]):
        inside = [t for t in seen if begin <= t < end]
        if end < math.inf:
            yield clock.at(inside[0] if inside else begin), clock.at(end)
        elif inside:
            yield clock.at(inside[0]), clock.at(clock.ended)


def _spans(lines: Sequence[Mapping[str, Any]], clock: Clock) -> Iterator[tuple[float, float]]:
    # Lines are written at the end of a phase.
    for noted in lines[:: max(1, -(-len(lines) // _MOST))]:
        ended = noted.get("time", 0)
        if ended > 0:
            began = ended - max(0.0, noted.get("seconds", 0.0))
            yield clock.at(max(clock.began, began)), clock.at(ended)


def _lane(name: str, label: str) -> list[Shape]:
    y = _LANES[name]
    return [line("g", LEFT, y, END, y), text("t", 2, y + 4, label, None)]


def _span(place: Place, span: tuple[float, float], lane: str, colour: int) -> Shape:
    left, right = map(place.across, span)
    width = max(1.6, right - left)
    x, y = min(left, END - width), _LANES[lane] - 6
    return Shape("rect", f"d{colour}", x=x, y=y, width=width, height=12)


def _flag(place: Place, mark: Mark) -> Shape:
    at = place.across(mark.at)
    flag = Shape("path", "d3", d=f"M{at - 5:.1f} 12h10l-5 11z")
    return mark.link([line("e", at, 24, at, _BASE), flag])


def _axis(place: Place, unit: str) -> Iterator[Shape]:
    yield line("a", LEFT, _BASE, END, _BASE)
    for value in ticks(*place.x):
        if value <= place.x[1]:
            yield text("t", place.across(value), _BASE + 16, f"{value:g}")
    yield text("t", END, _HEIGHT - 6, unit, "end")
