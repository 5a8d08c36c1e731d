"""Which curves a run's page shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ttf.text import numbers
from ttf.tools.report.page._chart import Point, Series, chart, columns, highest, smoothed, thin
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._spent import PHASES
from ttf.tools.report.page._timeline import clock_of, incident_marks, is_moment, timeline

MOST_METRICS = 7


def charts(run: RunFiles) -> str:
    """All that there is something to draw of, in the order of interest."""
    return "".join(
        [
            _loss(run),
            _recall(run),
            _hardness(run),
            _mining(run),
            *_memory(run),
            timeline(run),
            _speed(run),
            _phases(run),
        ]
    )


def _loss(run: RunFiles) -> str:
    points = thin(_points(run.steps, "step", "loss"))
    lines = [
        Series(name="loss", points=points, colour=0, faint=True),
        Series(name="smoothed", points=smoothed(points), colour=0),
    ]
    return chart("Loss", lines, **STEPS, y_text=_short)


def _recall(run: RunFiles) -> str:
    names = list(
        dict.fromkeys(n for e in run.evals if isinstance(m := e.get("metrics"), Mapping) for n in m)
    )
    lines = [
        Series(
            name=name,
            points=thin(_points(_metric_of(run.evals, name))),
            colour=position,
            dots=len(run.evals) <= 40,
        )
        for position, name in enumerate(names[:MOST_METRICS])
    ]
    return chart("Validation by step", lines, **STEPS, y_text=_short, from_zero=True)


def _metric_of(evals: Iterable[Mapping[str, Any]], name: str) -> Iterable[Mapping[str, Any]]:
    for line in evals:
        if isinstance(metrics := line.get("metrics"), Mapping):
            yield {"x": line.get("step"), "y": metrics.get(name)}


def _speed(run: RunFiles) -> str:
    points = thin(_points(run.steps, "step", "samples_per_s"))
    return chart(
        "Speed",
        [Series(name="samples/s", points=points, colour=1)],
        **STEPS,
        y_text=_count,
        from_zero=True,
    )


def _mining(run: RunFiles) -> str:
    few = len(run.mining) <= 40
    lines = [
        Series(
            name="queries that have a negative",
            points=thin(_points(run.mining, "step", "with_survivor")),
            colour=2,
            dots=few,
        ),
        Series(
            name="candidates kept by the filter",
            points=thin(_points(run.mining, "step", "yield")),
            colour=6,
            dots=few,
        ),
    ]
    return chart("Mining yield", lines, **STEPS, y_text=_short, from_zero=True)


def _hardness(run: RunFiles) -> str:
    """The closer the negatives' scores come to the positives', the harder they are."""
    lines = [
        Series(
            name=label,
            points=thin(_points(run.mining, "step", name)),
            colour=colour,
            dots=len(run.mining) <= 40,
        )
        for name, label, colour in (
            ("positive_score", "positive", 2),
            ("negative_score", "mined negatives", 3),
        )
    ]
    under = "Mean score at each mining, under the weights of that step."
    return chart("Hardness of the negatives", lines, **STEPS, y_text=_short, under=under)


def _phases(run: RunFiles) -> str:
    parts = [[part[phase] for phase in PHASES] for part in run.spent.parts]
    last = max((line["step"] for line in run.steps[-1:] if _finite(line.get("step"))), default=0)
    edges = [min(i * run.spent.width, max(last, 1)) for i in range(len(parts) + 1)]
    width = run.spent.width
    return columns(
        "Where the time goes along the run",
        parts,
        list(zip(PHASES.values(), (4, 0, 2, 5, 1), strict=True)),
        edges=edges if len(set(edges)) == len(edges) else list(range(len(parts) + 1)),
        x_label="step",
        x_text=_count,
        y_text=lambda value: f"{value:g} s",
        under=f"Seconds of each {width:,} step{'s' if width > 1 else ''}.",
    )


def _memory(run: RunFiles) -> Iterable[str]:
    """Two charts: mapped files would flatten what is held to a line at the bottom."""
    clock = clock_of(run)
    if clock is None:
        return
    lines = [{**m, "at": clock.at(m["time"])} for m in run.memory if is_moment(m.get("time"))]
    held = [
        Series(name=label, points=highest(_points(lines, "at", name)), colour=colour)
        for colour, (name, label) in enumerate((("anon", "anonymous"), ("shared", "shared")))
    ]
    limit = next((most for m in run.memory if (most := m.get("limit")) and most > 0), None)
    top = max((y for s in held for _, y in s.points), default=0.0)
    title = "Memory held" if limit is None else f"Memory held (limit {numbers.size(limit)})"
    if limit is not None and lines and limit < 3 * top:
        at = [clock.at(m["time"]) for m in run.memory if is_moment(m.get("time"))]
        ends = [(at[0], float(limit)), (at[-1], float(limit))]
        held.append(Series(name="limit", points=ends, colour=3, faint=True))
    axes: dict[str, Any] = {"x_label": clock.unit, "x_text": _count, "y_text": numbers.size}
    marks = incident_marks(run, clock)
    yield chart(title, held, **axes, from_zero=True, marks=marks, under=_classes(run))
    cache = Series(name="file-backed", points=highest(_points(lines, "at", "file")), colour=4)
    yield chart(
        "Page cache of mapped files (given back on demand)", [cache], **axes, from_zero=True
    )


def _classes(run: RunFiles) -> str:
    """'Dashed: incidents. segfault (002, 005), killed (003).'"""
    by_class: dict[str, list[str]] = {}
    for found in run.incidents:
        if is_moment(found.get("time")):
            by_class.setdefault(str(found.get("class")), []).append(str(found.get("id")))
    told = ", ".join(
        f"{name} ({', '.join(ids[:6])}{', ...' if len(ids) > 6 else ''})"
        for name, ids in by_class.items()
    )
    return f"Dashed: incidents. {told}." if told else ""


def _points(lines: Iterable[Mapping[str, Any]], x: str = "x", y: str = "y") -> list[Point]:
    """Lines where both are finite numbers, in their order."""
    pairs = ((line.get(x), line.get(y)) for line in lines)
    return [(float(a), float(b)) for a, b in pairs if _finite(a) and _finite(b)]  # type: ignore[arg-type]


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e300 and math.isfinite(value)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def _short(value: float) -> str:
    return f"{value:.4g}"


STEPS: Mapping[str, Any] = {"x_label": "step", "x_text": _count, "whole": True}
