"""The curves on a run's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ttf.text import numbers
from ttf.tools.report.charts.axes import count
from ttf.tools.report.charts.columns import column_chart
from ttf.tools.report.charts.curves import highest, smoothed, thin
from ttf.tools.report.charts.figure import Figure, Look, Point
from ttf.tools.report.charts.lines import Axes, Line, line_chart
from ttf.tools.report.page._phase_seconds import PHASES
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._time_by_phase import LOOKS
from ttf.tools.report.page._timeline import clock_of, incident_marks, timeline

_STEPS: Final = Axes(x_label="step", whole=True)
_STEPS_FROM_0: Final = Axes(x_label="step", whole=True, y=(0.0,))
_MOST_METRICS: Final = 7
# Speeds above so many times that of the fastest twentieth are spikes.
_SPIKE: Final = 1.5
_USUAL: Final = 0.95


def charts(run: RunFiles) -> list[Figure]:
    """A figure without data has no shapes."""
    return [
        _loss(run),
        _recall(run),
        _gain(run),
        _by_step(
            "Hardness of the negatives",
            run.mining,
            # the closer these come to those, the harder they are
            ("positive_score", "positive", 2),
            ("negative_score", "mined negatives", 3),
            axes=_STEPS,
            under="Mean score in each mining round, with the weights of that step.",
        ),
        _by_step(
            "Mining yield",
            run.mining,
            ("with_survivor", "queries that have a negative", 2),
            ("yield", "candidates kept by the filter", 6),
        ),
        *_memory(run),
        timeline(run),
        _speed(run),
        _phases(run),
    ]


def _loss(run: RunFiles) -> Figure:
    points = thin(_points(run.steps, "step", "loss"))
    lines = [
        Line(look=Look(name="loss", colour=0), points=points, faint=True),
        Line(look=Look(name="smoothed", colour=0), points=smoothed(points)),
    ]
    return line_chart("Loss", lines, _STEPS)


def _recall(run: RunFiles) -> Figure:
    lines = [{**line.get("metrics", {}), "step": line.get("step")} for line in run.evals]
    names = list(dict.fromkeys(name for line in run.evals for name in line.get("metrics", {})))
    curves = [(name, name, colour) for colour, name in enumerate(names[:_MOST_METRICS])]
    return _by_step("Validation by step", lines, *curves)


def _gain(run: RunFiles) -> Figure:
    """On the scale of the metrics themselves, a gain of five points is hard to see."""
    first = next((line.get("metrics", {}) for line in run.evals), {})
    lines = [
        {
            name: value - first[name]
            for name, value in line.get("metrics", {}).items()
            if name in first
        }
        | {"step": line.get("step")}
        for line in run.evals
    ]
    curves = [(name, name, colour) for colour, name in enumerate(list(first)[:_MOST_METRICS])]
    return _by_step("Change since the first evaluation", lines if len(lines) > 1 else [], *curves)


def _speed(run: RunFiles) -> Figure:
    """A single fast step must not flatten all others."""
    points = _points(run.steps, "step", "samples_per_s")
    usual = sorted(speed for _, speed in points)
    most = _SPIKE * usual[int(_USUAL * (len(usual) - 1))] if usual else 0.0
    higher = sum(speed > most for speed in usual)
    line = Line(
        look=Look(name="samples/s", colour=1),
        points=thin([(step, min(speed, most)) for step, speed in points]),
    )
    under = f"Faster steps ({higher:,}) are drawn at {most:,.0f}." if higher else ""
    axes = Axes(x_label="step", whole=True, y=(0.0,), y_text=count)
    return line_chart("Speed", [line], axes, under=under)


def _phases(run: RunFiles) -> Figure:
    parts = [[part[phase] for phase in PHASES] for part in run.spent.parts]
    last = max((line.get("step", 0) for line in run.steps[-1:]), default=0)
    width = run.spent.width
    edges = [min(i * width, max(last, 1)) for i in range(len(parts) + 1)]
    return column_chart(
        "Time by phase during the run",
        parts,
        list(LOOKS.values()),
        edges=edges if len(set(edges)) == len(edges) else list(range(len(parts) + 1)),
        x_label="step",
        y_text=lambda value: f"{value:g} s",
        under=f"Seconds per {width:,} step{'s' if width > 1 else ''}.",
    )


def _memory(run: RunFiles) -> Iterator[Figure]:
    # Two charts: on one scale, mapped files would flatten the anonymous memory.
    clock = clock_of(run)
    if clock is None:
        return
    lines = [{**m, "at": clock.at(m["time"])} for m in run.memory if m.get("time", 0) > 0]

    def curve(key: str, label: str, colour: int) -> Line:
        points = highest(_points(lines, "at", key))
        return Line(look=Look(name=label, colour=colour), points=points)

    held = [curve("anon", "anonymous", 0), curve("shared", "shared", 1)]
    limit = next((most for m in run.memory if (most := m.get("limit")) and most > 0), None)
    top = max((y for line in held for _, y in line.points), default=0.0)
    title = "Memory use" if limit is None else f"Memory use (limit {numbers.size(limit)})"
    if limit is not None and lines and limit < 3 * top:
        at = [x for x, _ in _points(lines, "at", "at")]
        ends = [(at[0], float(limit)), (at[-1], float(limit))]
        held.append(Line(look=Look(name="limit", colour=3), points=ends, faint=True))
    axes = Axes(x_label=clock.unit, y_text=numbers.size, y=(0.0,))
    marks = incident_marks(run, clock)
    yield line_chart(title, held, axes, marks=marks, under=_classes(run))
    cache = curve("file", "file-backed", 4)
    yield line_chart("Page cache of mapped files (freed when needed)", [cache], axes)


def _classes(run: RunFiles) -> str:
    """'Dashed: incidents. segfault (002, 005), killed (003).'"""
    by_class: dict[str, list[str]] = {}
    for found in run.incidents:
        if found.get("time", 0) > 0:
            by_class.setdefault(found["class"], []).append(found["id"])
    listed = ", ".join(
        f"{name} ({', '.join(ids[:6])}{', ...' if len(ids) > 6 else ''})"
        for name, ids in by_class.items()
    )
    return f"Dashed lines: incidents. {listed}." if listed else ""


def _by_step(
    title: str,
    lines: Sequence[Mapping[str, Any]],
    *curves: tuple[str, str, int],
    axes: Axes = _STEPS_FROM_0,
    few: int = 40,
    under: str = "",
) -> Figure:
    """A curve for each (key, label, colour); with dots for at most `few` lines."""
    drawn = [
        Line(
            look=Look(name=label, colour=colour),
            points=thin(_points(lines, "step", key)),
            dots=len(lines) <= few,
        )
        for key, label, colour in curves
    ]
    return line_chart(title, drawn, axes, under=under)


def _points(lines: Iterable[Mapping[str, Any]], x: str, y: str) -> list[Point]:
    """The points of the lines that have both keys."""
    pairs = ((line.get(x), line.get(y)) for line in lines)
    return [(float(a), float(b)) for a, b in pairs if a is not None and b is not None]
