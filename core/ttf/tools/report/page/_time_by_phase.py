"""The total time by phase: a bar and a table, with the untracked rest."""

from __future__ import annotations

from typing import Any, Final

from ttf.text import numbers
from ttf.tools.report.charts.figure import Look
from ttf.tools.report.page._phase_seconds import PHASES
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._timeline import clock_of

LOOKS: Final = {
    phase: Look(name=name, colour=colour)
    for (phase, name), colour in zip(PHASES.items(), (4, 0, 2, 5, 1), strict=True)
}


def time_by_phase(run: RunFiles) -> dict[str, Any]:
    """`rows` of a table; `bar`: (name, colour, share) each; `wall`: 0 if unknown."""
    wall = _wall(run)
    tracked = run.spent.tracked
    whole = max(wall, tracked)
    rest = max(0.0, wall - tracked)
    if not tracked:
        return {"rows": []}
    spent = [(LOOKS[p], seconds) for p, seconds in run.spent.total.items() if seconds]
    named = [*((look.name, seconds) for look, seconds in spent), ("untracked", rest)]
    rows = [(name, _seconds(seconds), f"{seconds / whole:.1%}") for name, seconds in named]
    return {
        "bar": [(look.name, look.colour, seconds / whole) for look, seconds in spent],
        "rows": [*rows, ("wall time", _seconds(whole), "")],
        "wall": wall,
    }


def _wall(run: RunFiles) -> float:
    # Of a run without an end: as long as its memory was recorded.
    if (noted := run.summary.get("wall_s", 0.0)) > 0:
        return noted
    clock = clock_of(run)
    return 0.0 if clock is None else clock.ended - clock.began


def _seconds(seconds: float) -> str:
    return numbers.duration(seconds) if seconds else "0 s"
