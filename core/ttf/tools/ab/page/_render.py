"""The page of a study: the values for its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.tools.ab.analysis import Analysis, ArmSummary
from ttf.tools.ab.output import words
from ttf.tools.ab.output.method import how, meaning
from ttf.tools.ab.output.rows import in_order, incident_rows, metric_names, scalars
from ttf.tools.ab.page._arms import arms_of
from ttf.tools.ab.page._bars import bar
from ttf.tools.ab.page._plots import Detail, Study, plots
from ttf.tools.ab.sample import Sample
from ttf.tools.report.render import render

_TEMPLATE: Final = Path(__file__).with_name("study.html")
# The page takes the first that fits.
_DETAIL: Final = (
    Detail(points=9_000, rows=600),
    Detail(points=4_500, rows=300),
    Detail(points=2_000, rows=100, titles=False),
    Detail(points=600, rows=0, titles=False),
)
_FEW: Final = 3  # with more arms, pairs without the first arm are folded
_SHA: Final = 12
# columns of the samples without numbers
_WORDS: Final = ("arm", "outcome", "classes", "weights_sha256", "reason")


def page_of(
    title: str, analysis: Analysis, samples: Sequence[Sample], facts: Mapping[str, str]
) -> bytes:
    first = analysis.arms[0].name if analysis.arms else ""
    few = len(analysis.arms) <= _FEW
    values = {
        "title": title,
        "analysis": analysis,
        "words": words,
        "bar": bar,
        "arms": arms_of([arm.name for arm in analysis.arms]),
        "letters": words.letters(analysis),
        "confidence": words.percent(analysis.confidence),
        "sentences": words.pair_sentences(analysis),
        "arm_rows": [(arm.name, list(_cells(analysis, arm))) for arm in analysis.arms],
        "shown": [c for c in analysis.comparisons if few or c.a == first],
        "rest": [c for c in analysis.comparisons if not few and c.a != first],
        "notes": words.notes(analysis.comparisons, words.letters(analysis)),
        "incidents": incident_rows(analysis, samples),
        "how": [row for row in how(analysis, samples, facts) if row[1]],
        "meaning": list(meaning(analysis)),
    }
    return render(_TEMPLATE, ({**values, **_detailed(analysis, samples, d)} for d in _DETAIL))


def _detailed(analysis: Analysis, samples: Sequence[Sample], detail: Detail) -> dict[str, Any]:
    study = Study(analysis=analysis, samples=samples, detail=detail)
    return {"charts": plots(study), "samples": _samples(samples, detail.rows)}


def _cells(analysis: Analysis, summary: ArmSummary) -> Iterator[tuple[str, str, Sequence[str]]]:
    """For each measure of an arm: heading, value and the lines below it."""
    interval = words.rate_interval(summary)
    rate = f"rate {interval}" if interval else ""
    yield "repeats", str(summary.runs), ()
    yield "crashed", words.crash_count(summary), (rate, words.endings(summary))
    for metric, name in zip(words.columns(analysis), words.headings(analysis), strict=True):
        figure = words.figure(metric, words.arm_value(summary, metric))
        c = words.comparison(analysis, analysis.arms[0].name, summary.name, metric)
        if c is None or c.effect is None:
            yield name, figure, ()
        else:
            yield name, figure, (words.effect(c, c.effect), words.interval(c))


def _samples(samples: Sequence[Sample], most: int) -> dict[str, Any]:
    shown, metrics = in_order(samples)[:most], metric_names(samples)
    rows = [scalars(sample, metrics) for sample in shown]
    head = list(rows[0]) if rows else []
    count = len(samples)
    return {
        "count": count,
        "title": f"All {count} samples" if len(rows) == count else f"The first {most} of {count}",
        "head": head,
        "rows": [[_figure(name, value) for name, value in row.items()] for row in rows],
        "numbers": [i for i, name in enumerate(head) if name not in _WORDS],
    }


def _figure(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return text[:_SHA] if name == "weights_sha256" else text
