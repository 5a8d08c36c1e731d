"""The study on a terminal: a row for each arm with its differences to the first, and one for each
comparison."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from ttf.tools.ab.analysis import Analysis, Comparison
from ttf.tools.ab.output import words

WIDTH: Final = 100
_LONGEST: Final = 12  # longer names are written in full above the table
_OTHERS: Final = 3  # with more arms, pairs without the first arm are shown only if they differ


def table_lines(analysis: Analysis) -> str:
    """Arms, comparisons, sentences about pairs, the verdict; plain text without colour."""
    parts = [
        "\n".join(_arms(analysis)),
        "\n".join(_comparisons(analysis)),
        "\n".join(_below(analysis)),
        "\n".join(_wrapped(words.verdict_text(analysis))),
    ]
    return "\n\n".join(part for part in parts if part)


# --- arms ---------------------------------------------------------------------------------------


def _arms(analysis: Analysis) -> Iterator[str]:
    called = words.letters(analysis)
    named_above = any(len(arm.name) > _LONGEST for arm in analysis.arms)
    if named_above:
        for arm in analysis.arms:
            yield from _wrapped(f"{called[arm.name]}  {arm.name}")
        yield ""
    names = {n: c if named_above else f"{c} {n}" for n, c in called.items()}
    lines = list(_table_lines(list(_arm_rows(analysis, names, intervals=True))))
    if max(map(len, lines)) > WIDTH:  # the comparisons below have the intervals too
        lines = list(_table_lines(list(_arm_rows(analysis, names, intervals=False))))
    yield from lines
    yield words.below_arms(analysis)


def _arm_rows(
    analysis: Analysis, names: dict[str, str], *, intervals: bool
) -> Iterator[Sequence[str]]:
    """For each arm its values, the differences to the first arm, and the intervals."""
    columns = words.columns(analysis)
    yield ("arm", "crashed", "lost", *words.headings(analysis))
    first = analysis.arms[0].name if analysis.arms else ""
    for place, arm in enumerate(analysis.arms):
        values = [words.figure(metric, words.arm_value(arm, metric)) for metric in columns]
        yield (names[arm.name], words.crash_count(arm), str(arm.lost), *values)
        metrics = columns if place else ()
        against = [words.comparison(analysis, first, arm.name, metric) for metric in metrics]
        effects = ["" if c is None else words.effect(c, c.effect) for c in against]
        if any(effects):
            yield ("  against A", words.rate_interval(arm), "", *effects)
            if intervals:
                yield ("  interval", "", "", *map(_bounds, against))
        elif arm.runs:
            yield ("", words.rate_interval(arm), "", *("" for _ in columns))


def _bounds(c: Comparison | None) -> str:
    # Short: the row above has the unit.
    if c is None:
        return ""
    low, high = (_shortened(words.effect(c, bound)) for bound in c.ci)
    return f"{low or '?'}..{high or '?'}" if low or high else ""


def _shortened(text: str) -> str:
    """
    >>> [_shortened(text) for text in ("+10.4%", "-0.004", "0.000", "0.0%")]
    ['+10.4', '-.004', '0', '0']
    """
    bare = re.sub(r"^([+-]?)0(\.\d{3})$", r"\1\2", text.rstrip("%"))
    return "0" if bare and not bare.strip(".0") else bare


# --- comparisons ----------------------------------------------------------------------------------


def _comparisons(analysis: Analysis) -> Iterator[str]:
    called, shown = words.letters(analysis), _shown(analysis)
    share = f"{words.percent(analysis.confidence)} interval"
    rows: list[Sequence[str]] = []
    for (a, b), group in groupby(shown, key=lambda c: (c.a, c.b)):
        if rows:
            rows.append([""] * len(rows[0]))
        title = f"{called[b]} against {called[a]}"
        rows.append((title, "difference", share, "p", "verdict"))
        rows += [_row(c, called) for c in group]
    yield from _table_lines(rows)
    compared = [c for c in analysis.comparisons if c.effect is not None]
    if left := len(compared) - len(shown):
        yield (
            f"{left} more comparisons between other arms are the same or inconclusive. The report "
            "shows them."
        )
    if nothing := {c.measure.short: None for c in analysis.comparisons if c.effect is None}:
        yield from _wrapped(
            f"In some comparisons, no pair has a value for both arms: {'; '.join(nothing)}."
        )


def _shown(analysis: Analysis) -> list[Comparison]:
    few = len(analysis.arms) <= _OTHERS
    first = analysis.arms[0].name if analysis.arms else ""
    return [
        c
        for c in analysis.comparisons
        if c.effect is not None and (few or c.a == first or c.verdict in ("a", "b"))
    ]


def _row(c: Comparison, called: dict[str, str]) -> Sequence[str]:
    return (
        c.measure.short,
        words.effect(c, c.effect),
        words.interval(c),
        words.p_text(c.p_adjusted),
        words.verdict(c, called),
    )


def _below(analysis: Analysis) -> Iterator[str]:
    count = sum(c.p_adjusted is not None for c in analysis.comparisons)
    if count:
        what = words.plural(count, "comparison")
        yield f"p is corrected for {count} {what} (Holm); the verdicts use this p."
    for note in words.notes(_shown(analysis), words.letters(analysis)):
        yield from _wrapped(note)
    for sentence in words.pair_sentences(analysis):
        yield from _wrapped(sentence)


# --- lines ----------------------------------------------------------------------------------------


def _table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    from ttf.text.tables import table

    if rows:
        yield from table(rows).splitlines()


def _wrapped(text: str) -> list[str]:
    import textwrap

    columns = min(WIDTH, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))
    return textwrap.wrap(text, columns, subsequent_indent="  ") if text else []
