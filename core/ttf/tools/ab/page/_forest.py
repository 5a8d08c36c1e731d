"""The comparisons: a row each, its interval drawn beside the margin that does not matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

from ttf.tools.ab.analysis import Analysis, Comparison
from ttf.tools.ab.output import words
from ttf.tools.ab.page._arms import Arm, arms_of
from ttf.tools.report.page._tables import folded

_WIDTH, _HEIGHT = 216, 22
_MIDDLE: Final = _WIDTH / 2
_REACH: Final = 100.0
"""Pixels from 0 to either end."""
_FEW: Final = 3
"""With more arms, pairs without the first one are folded away."""


def forest(analysis: Analysis) -> str:
    """'' before anything could be compared."""
    arms = {arm.name: arm for arm in arms_of([a.name for a in analysis.arms])}
    first = analysis.arms[0].name if analysis.arms else ""
    few = len(analysis.arms) <= _FEW
    shown = [c for c in analysis.comparisons if few or c.a == first]
    rest = [c for c in analysis.comparisons if not (few or c.a == first)]
    if not shown:
        return ""
    told = sum(c.verdict in ("a", "b") for c in rest)
    more = f"Between the other arms: {len(rest)} comparisons, {told} with a difference"
    return (
        _table(analysis, shown, arms)
        + (folded(more, _table(analysis, rest, arms)) if rest else "")
        + "".join(f"<p class='q'>{escape(note)}</p>" for note in _notes(analysis))
    )


def _notes(analysis: Analysis) -> Iterator[str]:
    share = words.percent(analysis.confidence)
    yield (
        f"Bars: {share} intervals, each on its own scale; to the right is what speaks for the arm "
        "on the right, also where lower is better. Shaded: differences that do not matter. A filled "
        "dot is a verdict, a hollow one is open. p is corrected for all comparisons."
    )
    yield from words.notes(analysis.comparisons, words.letters(analysis))


def _table(analysis: Analysis, shown: Sequence[Comparison], arms: dict[str, Arm]) -> str:
    rows = []
    for (a, b), group in groupby(shown, key=lambda c: (c.a, c.b)):
        rows.append(_title(arms[a], arms[b]))
        rows += [_row(c, arms) for c in group]
    head = (
        "<tr><th>measure</th><th class='r'>first</th><th class='r'>second</th>"
        f"<th class='r'>difference</th><th>{words.percent(analysis.confidence)} interval</th>"
        "<th></th><th class='r'>p</th><th>verdict</th></tr>"
    )
    return (
        f"<div class='o'><table class='cmp'><thead>{head}</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _title(a: Arm, b: Arm) -> str:
    return (
        f"<tr><th colspan='5'>{b.badge}{escape(b.name)} against {a.badge}{escape(a.name)}</th>"
        f"<th class='side'>{a.letter} better<span>{b.letter} better</span></th>"
        "<th colspan='2' class='rest'></th></tr>"
    )


def _row(c: Comparison, arms: dict[str, Arm]) -> str:
    called = {name: arm.letter for name, arm in arms.items()}
    verdict = words.verdict(c, called)
    told = escape(verdict)
    if c.verdict in ("a", "b"):
        better = arms[c.a if c.verdict == "a" else c.b]
        told = f"{better.badge}{escape(verdict.removeprefix(better.letter))}"
    decided = "" if c.verdict != "inconclusive" else " open"
    way = "higher is better" if c.higher_is_better else "lower is better"
    label = f"{c.label}{f', {c.unit}' if c.unit else ''}"
    cells = [
        f"<td>{escape(label)}<small>{way}</small></td>",
        _number(words.figure(c.metric, c.value_a), called[c.a]),
        _number(words.figure(c.metric, c.value_b), called[c.b]),
        _number(words.effect(c, c.effect), "difference"),
        f"<td data-k='interval'>{escape(words.interval(c))}</td>"
        if words.interval(c)
        else "<td class='none'></td>",
        f"<td class='fig'>{_bar(c, verdict)}</td>",
        _number(words.p_text(c.p_adjusted), "p"),
        f"<td class='v{decided}'>{told}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _number(text: str, name: str) -> str:
    if not text or text == "-":
        return f"<td class='r none'>{text}</td>"
    return f"<td class='r' data-k='{escape(name)}'>{escape(text)}</td>"


def _bar(c: Comparison, verdict: str) -> str:
    """Its right half is b's: mirrored where lower is better."""
    if c.effect is None:
        return ""
    sign = 1.0 if c.higher_is_better else -1.0
    low, high = c.ci if sign > 0 else (c.ci[1], c.ci[0])
    known = [abs(v) for v in (low, high, c.effect) if v is not None]
    reach = 1.05 * max([*known, 1.6 * c.margin])

    def at(value: float) -> float:
        return _MIDDLE + sign * value / reach * _REACH if reach else _MIDDLE

    left = _MIDDLE - _REACH - 6 if low is None else at(low)
    right = _MIDDLE + _REACH + 6 if high is None else at(high)
    y = _HEIGHT / 2
    caps = "".join(
        f'<line class="ci" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
        for x, bound in ((left, low), (right, high))
        if bound is not None
    )
    whiskers = ""
    if low is not None or high is not None:
        whiskers = f'<line class="ci" x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}"/>{caps}'
    dot = "eff open" if c.verdict == "inconclusive" else "eff"
    band = abs(at(c.margin) - _MIDDLE)
    label = f"{c.label}: {words.effect(c, c.effect)}, {words.interval(c) or 'no interval yet'}; {verdict}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<rect class="mg" x="{_MIDDLE - band:.1f}" y="2" width="{2 * band:.1f}" '
        f'height="{_HEIGHT - 4}"/>'
        f'<line class="zero" x1="{_MIDDLE}" x2="{_MIDDLE}" y1="0" y2="{_HEIGHT}"/>{whiskers}'
        f'<circle class="{dot}" cx="{at(c.effect):.1f}" cy="{y}" r="4"/></svg>'
    )
