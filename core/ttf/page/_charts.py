"""Which curves a run's page shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ttf.page._chart import Point, Series, chart, smoothed, thin
from ttf.page._read import RunFiles
from ttf.reporting import text

MOST_METRICS = 7


def charts(run: RunFiles) -> str:
    return "".join([_loss(run), _recall(run), _speed(run), _mining(run), *_memory(run)])


def _loss(run: RunFiles) -> str:
    points = thin(_points(run.steps, "step", "loss"))
    lines = [
        Series(name="loss", points=points, colour=0, faint=True),
        Series(name="smoothed", points=smoothed(points), colour=0),
    ]
    return chart("Loss", lines, **STEPS, y_text=_short)


def _recall(run: RunFiles) -> str:
    names = list(dict.fromkeys(n for e in run.evals for n in e.get("metrics") or {}))
    lines = [
        Series(
            name=name,
            points=thin(
                _points(
                    ({"x": e.get("step"), "y": (e.get("metrics") or {}).get(name)})
                    for e in run.evals
                )
            ),
            colour=position,
            dots=len(run.evals) <= 40,
        )
        for position, name in enumerate(names[:MOST_METRICS])
    ]
    return chart(
        "Validation by step",
        lines,
        **STEPS,
        y_text=_short,
        from_zero=True,
    )


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
    points = thin(_points(run.mining, "step", "yield"))
    return chart(
        "Mining yield",
        [Series(name="share of queries with a negative", points=points, colour=2, dots=True)],
        **STEPS,
        y_text=_short,
        from_zero=True,
    )


def _memory(run: RunFiles) -> Iterable[str]:
    """Two charts: mapped files would flatten what is held to a line at the bottom."""
    began = next((m["time"] for m in run.memory if _finite(m.get("time"))), 0.0)
    timed = [m for m in run.memory if _finite(m.get("time"))]
    scale, unit = _time_unit(max((m["time"] - began for m in timed), default=0.0))
    lines = [{**m, "at": (m["time"] - began) / scale} for m in timed]
    held = [
        Series(name=label, points=thin(_points(lines, "at", name)), colour=colour)
        for colour, (name, label) in enumerate((("anon", "anonymous"), ("shared", "shared")))
    ]
    limit = next((m["limit"] for m in lines if _finite(m.get("limit"))), None)
    top = max((y for s in held for _, y in s.points), default=0.0)
    title = "Memory held" if limit is None else f"Memory held (limit {text.size(limit)})"
    if limit is not None and lines and limit < 3 * top:
        ends = [(lines[0]["at"], float(limit)), (lines[-1]["at"], float(limit))]
        held.append(Series(name="limit", points=ends, colour=3, faint=True))
    axes: dict[str, Any] = {"x_label": unit, "x_text": _count, "y_text": text.size}
    yield chart(title, held, **axes, from_zero=True)
    cache = Series(name="file-backed", points=thin(_points(lines, "at", "file")), colour=4)
    yield chart(
        "Page cache of mapped files (given back on demand)", [cache], **axes, from_zero=True
    )


def _points(lines: Iterable[Mapping[str, Any]], x: str = "x", y: str = "y") -> list[Point]:
    """Lines where both are finite numbers, in their order."""
    pairs = ((line.get(x), line.get(y)) for line in lines)
    return [(float(a), float(b)) for a, b in pairs if _finite(a) and _finite(b)]  # type: ignore[arg-type]


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def _short(value: float) -> str:
    return f"{value:.4g}"


STEPS: Mapping[str, Any] = {"x_label": "step", "x_text": _count, "whole": True}


def _time_unit(seconds: float) -> tuple[float, str]:
    if seconds > 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds > 120 else (1.0, "seconds")
