"""The page of a study: the values for its template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.rundir.documents import Summary
from ttf.text.numbers import duration
from ttf.text.progress.ending import summary_rows
from ttf.tools.report.render import render
from ttf.tools.tune import words
from ttf.tools.tune.page._charts import frontier_chart, importance_chart, progress_chart
from ttf.tools.tune.search import FEWEST_FOR_IMPORTANCES
from ttf.tools.tune.study import TuneStudy

_TEMPLATE: Final = Path(__file__).with_name("study.html")
_MOST_ROWS: Final = (1000, 200, 50)


def page_of(study: TuneStudy, summary: Summary, importances: Mapping[str, float]) -> bytes:
    best, setup = study.best, study.setup
    values: dict[str, Any] = {
        "title": study.folder.resolve().name,
        "verdict": "No trial has finished yet." if best is None else words.verdict(study),
        "charts": [
            progress_chart(study.counted, setup.metric),
            frontier_chart(study.counted, setup.metric),
            importance_chart({words.short(key): v for key, v in importances.items()}),
        ],
        "importances": [(key, f"{share:.0%}") for key, share in importances.items()],
        "fewest": FEWEST_FOR_IMPORTANCES,
        "found": [] if best is None else _found(study),
        "last_run": summary_rows(summary) if summary else [],
        "how": _how(study),
        "head": words.HEADER,
        "count": len(study.counted),
    }
    rows = [words.row(setup, trial) for trial in study.counted]
    return render(_TEMPLATE, ({**values, "rows": rows[:most]} for most in _MOST_ROWS))


def _found(study: TuneStudy) -> list[list[str]]:
    best, setup = study.best, study.setup
    assert best is not None
    values = {**setup.start_point, **best.point}
    return [
        [key, words.value_text(value), words.value_text(setup.settled.get(key, "-"))]
        for key, value in values.items()
        if key in best.point
    ]


def _how(study: TuneStudy) -> list[tuple[str, str]]:
    setup = study.setup
    facts = setup.facts
    spent = sum(trial.seconds for trial in study.runs)
    return [
        (
            "hold-out",
            f"{facts.held_out:,} of {facts.pairs:,} training pairs ({setup.hold_out:.1%})",
        ),
        (
            "a trial",
            f"{setup.share:.0%} of the steps of a full run, on {facts.trial_pairs:,} pairs",
        ),
        ("score", f"{setup.metric} on the hold-out, against the whole bank of {facts.bank:,}"),
        ("trials", f"{len(study.counted)}, in {duration(spent)}"),
        ("validation pairs", f"{facts.val:,}; only the last run is evaluated on them"),
    ]
