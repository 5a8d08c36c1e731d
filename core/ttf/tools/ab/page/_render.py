"""The page itself: the verdict, arms, comparisons, drawings, incidents, samples, the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from ttf.tools.ab.analysis import Analysis, ArmSummary
from ttf.tools.ab.output import words
from ttf.tools.ab.output.method import how, meaning
from ttf.tools.ab.output.rows import in_order, incident_rows, metric_names, scalars
from ttf.tools.ab.page._arms import Arm, arms_of
from ttf.tools.ab.page._forest import forest
from ttf.tools.ab.page._plots import Detail, Study, plots
from ttf.tools.ab.page._style import AB_STYLE
from ttf.tools.ab.sample import Sample
from ttf.tools.report.page._html import MOST_BYTES
from ttf.tools.report.page._tables import cut, folded, printable, section, table

_DETAIL: Final = (
    Detail(points=9_000, rows=600),
    Detail(points=4_500, rows=300),
    Detail(points=2_000, rows=100, titles=False),
    Detail(points=600, rows=0, titles=False),
)
"""The most that the page has room for."""
_LONGEST: Final = 600
_SHA: Final = 12


def render(
    title: str, analysis: Analysis, samples: Sequence[Sample], facts: Mapping[str, Any]
) -> str:
    page = ""
    for detail in _DETAIL:
        page = _rendered(title, Study(analysis=analysis, samples=samples, detail=detail), facts)
        if len(page.encode()) < MOST_BYTES:
            break
    return page


def _rendered(title: str, study: Study, facts: Mapping[str, Any]) -> str:
    analysis, samples = study.analysis, study.samples
    said = "".join(f"<li>{escape(s)}</li>" for s in words.pair_sentences(analysis))
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='l'>{escape(words.verdict_text(analysis))}</p>",
        f"<ul>{said}</ul>" if said else "",
        section("The arms", _arms(analysis)),
        section("Compared", forest(analysis)),
        f"<div class='charts'>{''.join(plots(study))}</div>",
        _incidents(analysis, samples),
        _how(analysis, samples, facts),
        _samples(samples, study.detail.rows),
    ]
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}: ttf ab</title><style>{AB_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


# --- arms ---------------------------------------------------------------------------------------


def _arms(analysis: Analysis) -> str:
    names = ("repeats", "crashed", *words.HEADINGS)
    head = "".join(f"<th class='r'>{name}</th>" for name in names)
    arms = arms_of([arm.name for arm in analysis.arms])
    rows = "".join(
        _arm(analysis, arm, summary) for arm, summary in zip(arms, analysis.arms, strict=True)
    )
    note = (
        f"Below a figure: the difference to A and its {words.percent(analysis.confidence)} interval. "
        f"{words.BELOW_ARMS}"
    )
    return (
        f"<div class='o'><table class='arms'><thead><tr><th>arm</th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div><p class='q'>{escape(note)}</p>"
    )


def _arm(analysis: Analysis, arm: Arm, summary: ArmSummary) -> str:
    interval = words.rate_interval(summary)
    below = [f"rate {interval}" if interval else "", words.endings(summary)]
    cells = [
        f"<td>{arm.badge}{escape(printable(arm.name))}</td>",
        _cell("repeats", str(summary.runs), []),
        _cell("crashed", words.crash_count(summary), below),
    ]
    for metric, name in zip(words.COLUMNS, words.HEADINGS, strict=True):
        figure = words.figure(metric, words.arm_value(summary, metric))
        cells.append(_cell(name, figure, _against_the_first(analysis, arm, metric)))
    return f"<tr>{''.join(cells)}</tr>"


def _against_the_first(analysis: Analysis, arm: Arm, metric: str) -> list[str]:
    c = words.comparison(analysis, analysis.arms[0].name, arm.name, metric)
    if c is None or c.effect is None:
        return []
    return [words.effect(c, c.effect), words.interval(c)]


def _cell(name: str, text: str, below: Sequence[str]) -> str:
    small = "".join(f"<small>{escape(line)}</small>" for line in below if line)
    return f"<td class='r' data-k='{escape(name)}'>{escape(text)}{small}</td>"


# --- below the drawings ---------------------------------------------------------------------------


def _incidents(analysis: Analysis, samples: Sequence[Sample]) -> str:
    rows = [[cut(printable(cell), 80) for cell in row] for row in incident_rows(analysis, samples)]
    if not rows:
        return ""
    head = ("class", "process", *words.letters(analysis).values())
    numbers = range(2, len(head))
    note = (
        "<p class='q'>Incidents, of which a repeat may have several. <code>ttf explain CLASS</code> "
        "says what one means.</p>"
    )
    return section("Incidents by class", table(head, rows, numbers, "m") + note)


def _how(analysis: Analysis, samples: Sequence[Sample], facts: Mapping[str, Any]) -> str:
    rows = [(what, cut(printable(text), _LONGEST)) for what, text in how(analysis, samples, facts)]
    method = table((), list(meaning(analysis)))
    return section(
        "How it was measured",
        table((), [row for row in rows if row[1]]) + f"<h3>What the words mean</h3>{method}",
    )


def _samples(samples: Sequence[Sample], most: int) -> str:
    if not samples:
        return ""
    ordered, metrics = in_order(samples), metric_names(samples)
    shown = ordered[:most]
    where = "samples.csv and samples.jsonl beside this page have all, and more of each."
    if not shown:
        return section("Every sample", f"<p>{len(ordered)}: too many for a page. {where}</p>")
    rows = [list(scalars(sample, metrics).items()) for sample in shown]
    head = [name for name, _ in rows[0]]
    numbers = [i for i, name in enumerate(head) if name not in _WORDS]
    body = table(head, [[_figure(k, v) for k, v in row] for row in rows], numbers, "m all")
    count = len(ordered)
    title = f"All {count} samples" if len(shown) == count else f"The first {len(shown)} of {count}"
    return section("Every sample", folded(title, body) + f"<p class='q'>{where}</p>")


_WORDS: Final = ("arm", "outcome", "classes", "weights_sha256", "reason")


def _figure(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    text = printable(str(value))
    return text[:_SHA] if name == "weights_sha256" else cut(text, 120)
