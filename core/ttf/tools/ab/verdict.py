"""The verdict in plain English; never more than was shown."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from ttf.tools.ab.analysis import ArmSummary, Comparison, Fixed
from ttf.tools.ab.output.words import listed

_MANY_LOST: Final = 0.25


def sentence(
    arms: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    fixed: Sequence[Fixed],
    confidence: float,
) -> str:
    """From the verdicts; the figures are those of the comparisons."""
    if len(arms) < 2:
        return "There is no second arm to compare with."
    if not comparisons:
        return "No value was measured that could be compared."
    parts = (
        _two_arms(arms[0], arms[1], comparisons)
        if len(arms) == 2
        else _many_arms(arms, comparisons)
    )
    text = "; ".join([*parts, *_fixed_clauses(fixed, confidence)]) + "."
    headlines = [c for c in comparisons if c.measure.is_headline] or comparisons
    first = text[0].upper() + text[1:] if len(arms) > 2 else text
    return " ".join(filter(None, (first, _lost(arms), _undecided(headlines))))


# --- two arms ------------------------------------------------------------------------------------


def _two_arms(a: ArmSummary, b: ArmSummary, comparisons: Sequence[Comparison]) -> list[str]:
    verdicts = {c.metric: c.verdict for c in comparisons}
    crash = next((c for c in comparisons if c.scale == "rate"), None)
    others = [c for c in comparisons if c.scale != "rate"]
    subject, other = (a, b) if verdicts.get("crash_rate") == "a" else (b, a)
    differences = [
        _difference(c, subject.name)
        for c in others
        if c.winner and verdicts.get(c.measure.follows) != c.verdict
    ]
    if crash is not None and crash.winner:
        how_often = f"{a.name} crashed in {a.crashes} of {a.runs} repeats"
        beside = f"{b.name} in {b.crashes} of {b.runs}"
        parts = [f"{how_often}, {beside}: {subject.name} is more stable ({_chance(crash)})"]
        parts += [f"{subject.name} {listed(differences)}"] if differences else []
    elif differences:
        parts = [
            f"Compared with {other.name}, {subject.name} {listed(differences)}",
            _crashes(a, b, crash),
        ]
    else:
        parts = [_nothing_found(comparisons, "No difference was found"), _crashes(a, b, crash)]
    return parts + _same([c for c in others if c.verdict == "same" and c.measure.is_headline])


def _difference(c: Comparison, subject: str) -> str:
    """The difference of the subject to the other arm: "is 4% slower (2 to 6%)"."""
    effect, (low, high) = c.effect or 0.0, c.ci
    if subject == c.a:
        effect = _reversed_effect(c, effect)
        low, high = (None if x is None else _reversed_effect(c, x) for x in (high, low))
    clause = c.measure.better if c.winner == subject else c.measure.worse
    text = clause.format(_amount(c, abs(effect)))
    if low is None or high is None:
        return text
    near, far = sorted((abs(low), abs(high)))
    return f"{text} ({_two_digits(near * _factor(c))} to {_amount(c, far)})"


def _reversed_effect(c: Comparison, effect: float) -> float:
    """The effect of a relative to b, instead of b to a."""
    return 1 / (1 + effect) - 1 if c.scale == "ratio" else -effect


def _amount(c: Comparison, size: float) -> str:
    unit = "%" if c.scale == "ratio" else " points" if _factor(c) == 100 else f" {c.unit}".rstrip()
    return _two_digits(size * _factor(c)) + unit


def _factor(c: Comparison) -> int:
    return 100 if c.scale != "difference" or c.measure.is_share else 1


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _chance(c: Comparison) -> str:
    p = 1.0 if c.p_adjusted is None else c.p_adjusted
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _crashes(a: ArmSummary, b: ArmSummary, crash: Comparison | None) -> str:
    # If no arm was found stabler.
    if not a.crashes and not b.crashes:
        runs = f"{a.runs}" if a.runs == b.runs else f"{a.runs} and {b.runs}"
        return f"neither crashed in {runs} repeat{'s' * (runs != '1')}"
    alike = crash is not None and crash.verdict == "same"
    return (
        f"{a.name} crashed in {a.crashes} of {a.runs} repeats and {b.name} in {b.crashes} of "
        f"{b.runs}, " + ("which is the same" if alike else "which may be chance")
    )


def _same(same: Sequence[Comparison]) -> list[str]:
    """ "throughput and memory are the same within 2%": one clause for each margin."""
    return [
        f"{listed([c.measure.noun for c in group])} {'are' if len(group) > 1 else 'is'} "
        f"the same within {margin}"
        for margin, found in itertools.groupby(same, key=lambda c: _amount(c, c.margin))
        for group in [list(found)]
    ]


# --- more than two -------------------------------------------------------------------------------


def _many_arms(arms: Sequence[ArmSummary], comparisons: Sequence[Comparison]) -> list[str]:
    """A line for each measure by which any two arms differ."""
    parts = []
    for metric in dict.fromkeys(c.metric for c in comparisons):
        of = [c for c in comparisons if c.metric == metric]
        measure = of[0].measure
        wins = {arm.name: {c.loser for c in of if c.winner == arm.name} for arm in arms}
        known = {(c.a, c.b): c.verdict for c in comparisons if c.metric == measure.follows}
        if all(known.get((c.a, c.b)) == c.verdict for c in of if c.winner):
            continue
        crashes = {}
        if metric == "crash_rate":
            crashes = {arm.name: f" ({arm.crashes} of {arm.runs} crashed)" for arm in arms}
        parts.append(f"{measure.ranking}: {_ranks([a.name for a in arms], wins, crashes)}")
    if parts:
        return parts
    crashed, runs = sum(a.crashes for a in arms), sum(a.runs for a in arms)
    how_many = f"{crashed} of {runs} repeats" if crashed else f"none of {runs} repeats"
    none_found = "no difference between any two arms was found"
    return [_nothing_found(comparisons, none_found), f"{how_many} crashed"]


def _ranks(names: Sequence[str], wins: Mapping[str, set[str]], more: Mapping[str, str]) -> str:
    """A ranking if each place was shown; else which arm beats which, without the rest."""
    order = sorted(names, key=lambda name: -len(wins[name]))
    if all(wins[x].issuperset(order[i + 1 :]) for i, x in enumerate(order)):
        return ", then ".join(name + more.get(name, "") for name in order)
    of_losers = itertools.groupby(
        (name for name in order if wins[name]), key=lambda name: sorted(wins[name])
    )
    return ", ".join(
        f"{listed(x + more.get(x, '') for x in winners)} "
        f"{'beat' if len(winners) > 1 else 'beats'} {listed(x + more.get(x, '') for x in losers)}"
        for losers, group in of_losers
        for winners in [list(group)]
    )


def _nothing_found(comparisons: Sequence[Comparison], text: str) -> str:
    """`text` only if a difference could have been found."""
    hopeless = [
        c
        for c in comparisons
        if c.verdict == "inconclusive" and not c.decidable
        if c.measure.is_headline and c.scale != "rate"
    ]
    if not hopeless:
        return text
    nouns = listed(dict.fromkeys(c.measure.noun for c in hopeless))
    return (
        f"Not decided yet: after so few repeats, a difference in {nouns} cannot be distinguished "
        "from chance"
    )


# --- any number ----------------------------------------------------------------------------------


def _fixed_clauses(fixed: Sequence[Fixed], confidence: float) -> list[str]:
    """One clause for each arm that is clean for long enough, while controls crashed."""
    controls: dict[str, list[Fixed]] = {}
    for of in fixed:
        if of.verdict == "fixed":
            controls.setdefault(of.b, []).append(of)
    return [
        f"{name} ran {of[0].clean_steps:,} steps without a crash, which is enough to say that it "
        f"no longer has the crashes of {listed(f.a for f in of)} ({100 * confidence:.3g}% "
        "confidence)"
        for name, of in controls.items()
    ]


def _lost(arms: Sequence[ArmSummary]) -> str:
    # The remaining repeats may flatter an arm that lost many.
    many = [arm for arm in arms if arm.runs and arm.lost / arm.runs >= _MANY_LOST]
    if not many:
        return ""
    lost = listed(f"the {arm.lost} lost repeats of {arm.name}" for arm in many)
    return f"The comparison of speed and quality does not include {lost}."


def _undecided(comparisons: Sequence[Comparison]) -> str:
    """What is open, and the repeats it would take: the most of several pairs of arms."""
    more: dict[str, int] = {}
    for c in comparisons:
        if c.verdict == "inconclusive":
            noun = c.measure.noun
            more[noun] = max(more.get(noun, 0), c.needs.more if c.needs else 0)
    if not more:
        return ""
    unit = itertools.chain([" more repeats"], itertools.repeat(""))
    open_ones = [f"{noun} (about {n}{next(unit)})" if n else noun for noun, n in more.items()]
    return f"Inconclusive: {listed(open_ones)}."
