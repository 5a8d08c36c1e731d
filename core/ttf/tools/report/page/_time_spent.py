"""Where the time went in all: a bar and a table, and what nobody kept account of."""

from __future__ import annotations

from html import escape
from typing import Final

from ttf.rundir.typed_json import is_number
from ttf.text import numbers
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._spent import PHASES
from ttf.tools.report.page._tables import section, table
from ttf.tools.report.page._timeline import clock_of

_COLOURS: Final = dict(zip(PHASES, (4, 0, 2, 5, 1), strict=True))
_REST: Final = (
    "Untracked is the rest of the wall time: starting processes and opening data, steps that an "
    "incident cost and that were done again, pauses before restarts, writing the end."
)


def time_spent(run: RunFiles) -> str:
    if not run.spent.tracked:
        return ""
    wall = _wall(run)
    rest = max(0.0, wall - run.spent.tracked)
    whole = max(wall, run.spent.tracked)
    named = [(PHASES[p], run.spent.total[p], _COLOURS[p]) for p in PHASES if run.spent.total[p]]
    rows = [(name, _seconds(s), f"{s / whole:.1%}") for name, s, _ in named]
    rows.append(("untracked", _seconds(rest), f"{rest / whole:.1%}"))
    rows.append(("wall time", _seconds(whole), ""))
    bar = "".join(
        f"<i class='k{colour}' style='width:{100 * s / whole:.2f}%' title='{escape(name)}'></i>"
        for name, s, colour in named
    )
    note = "" if wall else "<p>The wall time of this run is not known.</p>"
    return section(
        "Where the time went",
        f"<div class='b'>{bar}</div>{table(('phase', 'time', 'share'), rows, (1, 2), 'm')}"
        f"{note}<p class='q'>{_REST}</p>",
    )


def _wall(run: RunFiles) -> float:
    """Of all its processes; of a run without an end, as far as its memory was watched."""
    told = run.summary.get("wall_s")
    if is_number(told) and told > 0:
        return float(told)
    clock = clock_of(run)
    return 0.0 if clock is None else clock.ended - clock.began


def _seconds(seconds: float) -> str:
    return numbers.duration(seconds) if seconds else "0 s"
