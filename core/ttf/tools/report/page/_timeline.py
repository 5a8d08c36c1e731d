"""What happened when: a run's processes, its checkpoints and its incidents on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

from ttf.tools.report.page._chart import LEFT, RIGHT, WIDTH, Mark, across, figure, ticks
from ttf.tools.report.page._read import RunFiles

_HEIGHT: Final = 172
_LANES: Final = {"process": 48, "mining": 72, "evaluation": 92, "checkpoint": 112}
_MOST: Final = 300
"""Ticks of a lane."""
_MANY: Final = 12


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The run's axis of time, in the unit that suits its length."""

    began: float
    ended: float

    @property
    def scale(self) -> float:
        return time_unit(self.ended - self.began)[0]

    @property
    def unit(self) -> str:
        return time_unit(self.ended - self.began)[1]

    def at(self, moment: float) -> float:
        return (moment - self.began) / self.scale


def time_unit(seconds: float) -> tuple[float, str]:
    if seconds > 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds > 120 else (1.0, "seconds")


def clock_of(run: RunFiles) -> Clock | None:
    """None where nothing was noted with its time."""
    lines = (run.memory, run.evals, run.mining, run.checkpoints, run.incidents)
    moments = [line["time"] for kind in lines for line in kind if is_moment(line.get("time"))]
    return Clock(began=min(moments), ended=max(moments)) if moments else None


def is_moment(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def incident_marks(run: RunFiles, clock: Clock) -> list[Mark]:
    """Where a chart's axis is that clock."""
    return [
        Mark(
            at=clock.at(found["time"]),
            label=f"{found.get('id')} {found.get('class')}",
            title=f"incident {found.get('id')}: {found.get('class')}",
            target=f"incident-{found.get('id')}",
        )
        for found in run.incidents[-_MOST:]
        if is_moment(found.get("time"))
    ]


def timeline(run: RunFiles) -> str:
    """A figure, or '' for a run of which no time is known."""
    clock = clock_of(run)
    if clock is None or not clock.ended > clock.began:
        return ""
    x = (0.0, clock.at(clock.ended))
    lives = list(_lives(run, clock))
    body = [_axis(x, clock.unit), _lane("process", "alive" if run.guarded else "trainer")]
    body += [_span(x, life, _LANES["process"], i % 2) for i, life in enumerate(lives)]
    for name, label, lines, colour in (
        ("mining", "mining", run.mining, 2),
        ("evaluation", "eval", run.evals, 4),
        ("checkpoint", "saved", run.checkpoints, 5),
    ):
        spans = list(_spans(lines, clock))
        if spans:
            body.append(_lane(name, label))
            body += [_span(x, span, _LANES[name], colour) for span in spans]
    flags = incident_marks(run, clock)
    many = ' class="y"' if len(flags) > _MANY else ""
    body.append(f"<g{many}>{''.join(_flag(x, mark) for mark in flags)}</g>")
    deaths = len(lives) - 1
    under = f"The process was started {len(lives)} times." if deaths > 0 else ""
    return figure("What happened when", [], "".join(body), height=_HEIGHT, under=under)


def _lives(run: RunFiles, clock: Clock) -> Iterator[tuple[float, float]]:
    """From each start to its death, as the memory shows them."""
    deaths = sorted(
        float(found["time"])
        for found in run.incidents
        if is_moment(found.get("time")) and found.get("process") != "miner"
    )
    seen = [float(line["time"]) for line in run.memory if is_moment(line.get("time"))]
    for begin, end in pairwise([clock.began, *deaths, math.inf]):
        inside = [t for t in seen if begin <= t < end]
        if end < math.inf:
            yield clock.at(inside[0] if inside else begin), clock.at(end)
        elif inside:
            yield clock.at(inside[0]), clock.at(clock.ended)


def _spans(lines: Sequence[Mapping[str, Any]], clock: Clock) -> Iterator[tuple[float, float]]:
    """What lasted until it was noted."""
    for line in lines[:: max(1, -(-len(lines) // _MOST))]:
        if is_moment(line.get("time")):
            seconds = line.get("seconds")
            lasted = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else 0.0
            yield clock.at(max(clock.began, line["time"] - lasted)), clock.at(line["time"])


def _lane(name: str, text: str) -> str:
    y = _LANES[name]
    return (
        f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text class="t" x="2" y="{y + 4}">{escape(text)}</text>'
    )


def _span(x: tuple[float, float], span: tuple[float, float], y: int, colour: int) -> str:
    left, right = across(span[0], x), across(span[1], x)
    width = max(1.6, right - left)
    left = min(left, WIDTH - RIGHT - width)
    return f'<rect class="d{colour}" x="{left:.1f}" y="{y - 6}" width="{width:.1f}" height="12"/>'


def _flag(x: tuple[float, float], mark: Mark) -> str:
    at = across(mark.at, x)
    return (
        f'<a href="#{escape(mark.target)}"><title>{escape(mark.title)}</title>'
        f'<line class="e" x1="{at:.1f}" x2="{at:.1f}" y1="24" y2="{_HEIGHT - 42}"/>'
        f'<path class="d3" d="M{at - 5:.1f} 12h10l-5 11z"/></a>'
    )


def _axis(x: tuple[float, float], unit: str) -> str:
    base = _HEIGHT - 42
    out = [f'<line class="a" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>']
    for value in ticks(*x):
        if x[0] <= value <= x[1]:
            at = across(value, x)
            out.append(
                f'<text class="t" x="{at:.1f}" y="{base + 16}" text-anchor="middle">{value:g}</text>'
            )
    out.append(
        f'<text class="t" x="{WIDTH - RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">{unit}</text>'
    )
    return "".join(out)
