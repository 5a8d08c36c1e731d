"""The study as Markdown, for an issue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ttf.text.secret_patterns import MARKUP
from ttf.text.terminal import visible
from ttf.tools.ab.analysis import Analysis, ArmSummary
from ttf.tools.ab.output import words
from ttf.tools.ab.output.method import how, meaning
from ttf.tools.ab.output.rows import in_order, incident_rows, metric_names, scalars
from ttf.tools.ab.sample import Sample

# keys that only the CSV has
_LEFT_OUT: Final = ("classes", "weights_sha256", "exact", "crashed", "position", "reason", "host")

# Of the first table: by it a file is known as an earlier report.
MARKDOWN_MARK: Final = b"| arm | repeats | crashed |"


def markdown(
    analysis: Analysis, samples: Sequence[Sample], facts: Mapping[str, str] | None = None
) -> str:
    """`facts` (command, machine, arms) are shown unchanged, in their order."""
    parts = [
        f"**{_plain(words.verdict_text(analysis))}**",
        _arms(analysis),
        _comparisons(analysis),
        "\n".join(f"- {_plain(sentence)}" for sentence in words.pair_sentences(analysis)),
        _incidents(analysis, samples),
        _rows("### How it was measured", how(analysis, samples, facts or {})),
        _folded("Meaning of the terms", _rows("", list(meaning(analysis)))),
        _folded(f"All {len(samples)} samples", _samples(samples)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arms(analysis: Analysis) -> str:
    called = words.letters(analysis)
    head = ("", "arm", "repeats", "crashed", "interval", "how", *words.headings(analysis))
    rows = [_arm(arm, called[arm.name], words.columns(analysis)) for arm in analysis.arms]
    return f"{_table(head, rows)}\n\n{words.below_arms(analysis)}"


def _arm(arm: ArmSummary, letter: str, columns: Sequence[str]) -> Sequence[str]:
    return (
        letter,
        arm.name,
        str(arm.runs),
        words.crash_count(arm),
        words.rate_interval(arm),
        words.endings(arm),
        *(words.figure(metric, words.arm_value(arm, metric)) for metric in columns),
    )


def _comparisons(analysis: Analysis) -> str:
    called = words.letters(analysis)
    share = words.percent(analysis.confidence)
    head = (
        "",
        "measure",
        "difference",
        f"{share} interval",
        "p",
        "p, corrected",
        "pairs",
        "verdict",
    )
    rows = [
        (
            f"{called[c.b]} against {called[c.a]}",
            c.label,
            words.effect(c, c.effect),
            words.interval(c),
            words.p_text(c.p_value),
            words.p_text(c.p_adjusted),
            str(c.n),
            words.verdict(c, called),
        )
        for c in analysis.comparisons
    ]
    notes = "\n".join(f"- {_plain(note)}" for note in words.notes(analysis.comparisons, called))
    return "\n\n".join(part for part in (_table(head, rows), notes) if part) if rows else ""


def _incidents(analysis: Analysis, samples: Sequence[Sample]) -> str:
    rows = incident_rows(analysis, samples)
    if not rows:
        return ""
    head = ("class", "process", *words.letters(analysis).values())
    return f"### Incidents\n\n{_table(head, rows)}"


def _samples(samples: Sequence[Sample]) -> str:
    metrics = metric_names(samples)
    rows = [
        {k: v for k, v in scalars(sample, metrics).items() if k not in _LEFT_OUT}
        for sample in in_order(samples)
    ]
    return _table(list(rows[0]), [list(map(_figure, row.values())) for row in rows]) if rows else ""


def _rows(title: str, rows: Sequence[tuple[str, str]]) -> str:
    listed = "\n".join(f"- **{_plain(what)}**: {_plain(text)}" for what, text in rows if text)
    return f"{title}\n\n{listed}" if title else listed


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(map(_plain, row)) for row in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    # One line without markup: names come from users and processes.
    return MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))


def _figure(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
