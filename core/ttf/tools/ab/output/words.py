"""Words and figures for table, report and page: arms, effects, intervals, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ttf.tools.ab.analysis import Analysis, ArmSummary, Bitwise, Comparison, Fixed, Interval
from ttf.tools.ab.measures import MEASURES, METRICS, PAIRED, SECONDS

_COLUMNS: Final = tuple(measure.name for measure in PAIRED if measure.heading)
_BELOW_ARMS: Final = (
    "Growth: MB of memory per 1,000 steps. Values are means of the repeats that finished."
)
_BELOW_COMMANDS: Final = "Values are means of the repeats that finished."
_LONG_NAME: Final = 32
_MOST_NAMED: Final = 3  # more names are replaced by their number


def of_commands(analysis: Analysis) -> bool:
    return any(SECONDS in arm.metrics for arm in analysis.arms)


def columns(analysis: Analysis) -> tuple[str, ...]:
    """The measures in every table of arms, after the crashes."""
    if not of_commands(analysis):
        return _COLUMNS
    known = {name for arm in analysis.arms for name in arm.metrics}
    return (SECONDS, "peak_anon_mb", *(name for name in METRICS.values() if name in known))


def headings(analysis: Analysis) -> tuple[str, ...]:
    return tuple(MEASURES[name].heading for name in columns(analysis))


def below_arms(analysis: Analysis) -> str:
    return _BELOW_COMMANDS if of_commands(analysis) else _BELOW_ARMS


def letter(place: int) -> str:
    """
    >>> [letter(n) for n in (0, 1, 25, 26)]
    ['A', 'B', 'Z', 'A2']
    """
    return chr(ord("A") + place % 26) + (str(place // 26 + 1) if place >= 26 else "")


def letters(analysis: Analysis) -> dict[str, str]:
    return {arm.name: letter(place) for place, arm in enumerate(analysis.arms)}


def verdict_text(analysis: Analysis) -> str:
    """The verdict; arms with long names have their letter instead."""
    text = analysis.verdict
    for name, short_name in sorted(letters(analysis).items(), key=lambda item: -len(item[0])):
        if len(name) > _LONG_NAME:
            text = text.replace(name, short_name)
    return text


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


# --- arms ---------------------------------------------------------------------------------------


def crash_count(arm: ArmSummary) -> str:
    """'6 of 20', or '-' if no repeat counts yet."""
    return f"{arm.crashes} of {arm.runs}" if arm.runs else "-"


def endings(arm: ArmSummary) -> str:
    """'4 survived, 2 lost'; '' if none crashed."""
    return f"{arm.survived} survived, {arm.lost} lost" if arm.crashes else ""


def rate_interval(arm: ArmSummary) -> str:
    low, high = arm.crash_rate_ci
    if not arm.runs or low is None or high is None:
        return ""
    return f"{percent(low)} to {percent(high)}"


def arm_value(arm: ArmSummary, metric: str) -> float | None:
    if metric in arm.metrics:
        return arm.metrics[metric]
    value = getattr(arm, metric, None)
    return value if isinstance(value, int | float) else None


def figure(metric: str, value: float | None) -> str:
    """A value without its unit, which is in the heading; '-' for None.

    >>> figure("samples_per_s", 1234.5), figure("recall@10", 0.5), figure("crash_rate", 0.3)
    ('1,234', '0.500', '30%')
    """
    if value is None or not math.isfinite(value):
        return "-"
    measure = MEASURES[metric]
    if measure.scale == "rate":
        return percent(value)
    if measure.scale == "ratio":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if measure.can_be_negative:
        return signed(value, measure.digits)
    return f"{value:.{measure.digits}f}"


def percent(share: float) -> str:
    """
    >>> percent(0.3), percent(0.004), percent(0.0)
    ('30%', '0.4%', '0%')
    """
    digits = 1 if 0 < share < 0.0095 else 0
    return f"{100 * share:.{digits}f}%"


def signed(value: float, digits: int) -> str:
    """With its sign; zero without a sign.

    >>> signed(1.25, 1), signed(-0.0001, 3)
    ('+1.2', '0.000')
    """
    text = f"{value:+.{digits}f}"
    return text[1:] if not any(c in "123456789" for c in text) else text


# --- comparisons ----------------------------------------------------------------------------------


def comparison(analysis: Analysis, a: str, b: str, metric: str) -> Comparison | None:
    matching = (c for c in analysis.comparisons if (c.a, c.b, c.metric) == (a, b, metric))
    return next(matching, None)


def effect(c: Comparison, value: float | None) -> str:
    """A difference with its unit: '+5.4%', '+25 points', '-0.004'."""
    unit = "%" if c.scale == "ratio" else " points" if c.scale == "rate" else ""
    return f"{_number(c, value)}{unit}" if value is not None else ""


def interval(c: Comparison, ci: Interval | None = None) -> str:
    """'+4.1% to +6.7%'; open ends in words."""
    unit = "%" if c.scale == "ratio" else ""
    low, high = ("" if bound is None else f"{_number(c, bound)}{unit}" for bound in ci or c.ci)
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else ""


def margin(c: Comparison) -> str:
    """The difference that does not matter: '2%', '5 points', '0.005'."""
    if c.scale == "ratio":
        return f"{100 * c.margin:g}%"
    return f"{100 * c.margin:g} points" if c.scale == "rate" else f"{c.margin:g}"


def p_text(p: float | None) -> str:
    """
    >>> p_text(0.04321), p_text(0.00001), p_text(1.0)
    ('0.043', '<0.0001', '1')
    """
    if p is None:
        return ""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def verdict(c: Comparison, letter_of: Mapping[str, str]) -> str:
    """'B is faster', 'same within 2%', 'inconclusive: about 40 more repeats'."""
    if c.verdict in ("a", "b"):
        return f"{letter_of[c.winner]} {c.measure.wins}"
    if c.verdict == "same":
        return f"same within {margin(c)}"
    if c.needs is None:
        return "inconclusive" if c.effect is not None else "not compared"
    return f"inconclusive: about {c.needs.more:,} more {plural(c.needs.more, 'repeat')}"


def plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _number(c: Comparison, value: float) -> str:
    if c.scale == "difference":
        return signed(value, c.measure.digits)
    return signed(100 * value, 0 if c.scale == "rate" else 1)


# --- sentences about pairs of arms -------------------------------------------------------------------


def _fixed_sentence(f: Fixed, letter_of: Mapping[str, str]) -> str:
    a, b = letter_of[f.a], letter_of[f.b]
    if f.verdict == "not reproduced":
        return (
            f"{a}, the control, did not crash in {f.control_steps:,} steps. The crash was not "
            f"reproduced, so nothing is known about {b}."
        )
    if f.verdict == "still crashes" or f.needed_steps is None:
        return f"{b} still crashes, like {a}."
    says = f"{b} is fixed" if f.verdict == "fixed" else f"It is too early to call {b} fixed"
    clean = (
        f"{f.clean_steps:,} steps without a crash; {f.needed_steps:,} are needed, because {a} had "
        f"{f.control_crashes} {plural(f.control_crashes, 'incident')} in {f.control_steps:,} steps"
    )
    chance = ""
    if f.p is not None:
        p = p_text(f.p)
        chance = f" (p {'' if p.startswith('<') else '= '}{p} for no change)"
    more = ""
    if f.more_runs is not None:
        more = (
            f" About {f.more_runs:,} more {plural(f.more_runs, 'repeat')} of {b} would be enough."
        )
    return f"{says}: {clean}{chance}.{more}"


def _bitwise_sentence(b: Bitwise, letter_of: Mapping[str, str]) -> str:
    return (
        f"{b.equal} of {b.pairs} {plural(b.pairs, 'pair')} of {letter_of[b.a]} and "
        f"{letter_of[b.b]} {'ends' if b.pairs == 1 else 'end'} with bitwise equal weights."
    )


def pair_sentences(analysis: Analysis) -> list[str]:
    """Sentences about crashes and equal weights, which do not fit in a table."""
    return [*_of_crashes(analysis), *_of_weights(analysis)]


def _of_crashes(analysis: Analysis) -> Iterator[str]:
    # The first arm is the control; another arm is only if it shows that an arm is fixed.
    letter_of = letters(analysis)
    first, two = analysis.arms[0].name if analysis.arms else "", len(analysis.arms) == 2
    steps = sum(arm.steps for arm in analysis.arms)
    if analysis.fixed and steps and not any(arm.crashes for arm in analysis.arms):
        yield (
            f"No arm crashed in {steps:,} steps. If there was a crash before the study, it was "
            "not reproduced, so nothing is known about it."
        )
    for f in analysis.fixed:
        of_first = f.a == first and f.verdict in ("not yet", "still crashes")
        if f.verdict == "fixed" or of_first or (two and f.verdict == "not yet"):
            yield _fixed_sentence(f, letter_of)


def _of_weights(analysis: Analysis) -> Iterator[str]:
    letter_of = letters(analysis)
    known = [b for b in analysis.bitwise if b.pairs]
    if known and not any(b.equal for b in known):
        yield "No pair ends with bitwise equal weights."
    else:
        yield from (_bitwise_sentence(b, letter_of) for b in known)
    apart = [b for b in analysis.bitwise if b.loss_distance]
    if apart:
        figures = ", ".join(
            f"{letter_of[b.a]} and {letter_of[b.b]} {b.loss_distance:.2g}" for b in apart
        )
        yield f"Mean distance between the loss curves of a pair: {figures}."


def notes(comparisons: Iterable[Comparison], letter_of: Mapping[str, str]) -> list[str]:
    """The warnings about figures, each once."""
    found: dict[str, dict[str, list[str]]] = {}
    for c in comparisons:
        for note in filter(None, c.note.split("; ")):
            pair = f"{letter_of[c.b]} against {letter_of[c.a]}"
            found.setdefault(note, {}).setdefault(pair, []).append(c.measure.short)
    return [f"{note[0].upper()}{note[1:]} ({_where(pairs)})." for note, pairs in found.items()]


def _where(pairs: dict[str, list[str]]) -> str:
    measures = list(dict.fromkeys(m for names in pairs.values() for m in names))
    arms = listed(pairs) if len(pairs) <= _MOST_NAMED else f"{len(pairs)} pairs of arms"
    what = listed(measures) if len(measures) <= _MOST_NAMED else f"{len(measures)} measures"
    return f"{arms}: {what}"
