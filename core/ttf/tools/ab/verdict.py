"""The verdict for somebody who reads nothing else: plain English, and never more than was shown."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from ttf.tools.ab import _phrases as phrases
from ttf.tools.ab._phrases import joined
from ttf.tools.ab.analysis import ArmSummary, Comparison, Fixed

_HEADLINES: Final = ("crash_rate", "samples_per_s", "peak_anon_mb", "recall@10")
"""Told whatever the verdict; the other measures only where arms differ."""
_FOLLOWS: Final[Mapping[str, str]] = {
    "mrr@10": "recall@10",
    "recall@10 at equal time": "recall@10",
    "loss": "recall@10",
}
"""Left out where the same arm is better by the measure that people know."""
_MANY_LOST: Final = 0.25


def sentence(
    arms: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    fixed: Sequence[Fixed],
    confidence: float,
) -> str:
    """Made of the verdicts alone; figures are those of the comparisons."""
    if len(arms) < 2:
        return "There is nothing to compare with."
    if not comparisons:
        return "Nothing was measured that could be compared."
    parts = (
        _of_two(arms[0], arms[1], comparisons) if len(arms) == 2 else _of_many(arms, comparisons)
    )
    text = "; ".join([*parts, *_gone(fixed, confidence)]) + "."
    told = [c for c in comparisons if c.metric in _HEADLINES] or comparisons
    rest = (text[0].upper() + text[1:] if len(arms) > 2 else text, _lost(arms), _open(told))
    return " ".join(filter(None, rest))


def _of_two(a: ArmSummary, b: ArmSummary, comparisons: Sequence[Comparison]) -> list[str]:
    verdicts = {c.metric: c.verdict for c in comparisons}
    crash = next((c for c in comparisons if c.scale == "rate"), None)
    stabler = verdicts.get("crash_rate") in ("a", "b")
    subject, other = (a, b) if verdicts.get("crash_rate") == "a" else (b, a)
    found = [
        phrases.clause(c, subject.name)
        for c in comparisons
        if c.scale != "rate"
        and c.verdict in ("a", "b")
        and verdicts.get(_FOLLOWS.get(c.metric, "")) != c.verdict
    ]
    same = [c for c in comparisons if c.verdict == "same" and c.metric in _HEADLINES]
    if stabler and crash is not None:
        how_often = f"{subject.name} crashed in {subject.crashes} of {subject.runs} repeats"
        beside = f"{other.name} in {other.crashes} of {other.runs}"
        parts = [f"{how_often}, {beside}: {subject.name} is stabler ({phrases.chance(crash)})"]
        parts += [f"it {joined(found)}"] if found else []
    elif found:
        parts = [
            f"Compared with {other.name}, {subject.name} {joined(found)}",
            _crashes(a, b, crash),
        ]
    else:
        parts = ["No difference was found", _crashes(a, b, crash)]
    return parts + _same([c for c in same if c.scale != "rate"])


def _of_many(arms: Sequence[ArmSummary], comparisons: Sequence[Comparison]) -> list[str]:
    """A line a measure by which any two arms differ."""
    parts = []
    for metric in dict.fromkeys(c.metric for c in comparisons):
        of = [c for c in comparisons if c.metric == metric]
        wins = {arm.name: {_loser(c) for c in of if _winner(c) == arm.name} for arm in arms}
        leader = {c.a + c.b: c.verdict for c in comparisons if c.metric == _FOLLOWS.get(metric)}
        if not any(wins.values()) or all(
            leader.get(c.a + c.b) == c.verdict for c in of if c.verdict in ("a", "b")
        ):
            continue
        told = {}
        if metric == "crash_rate":
            told = {arm.name: f" ({arm.crashes} of {arm.runs} crashed)" for arm in arms}
        parts.append(f"{phrases.quality(of[0])}: {_ranks([a.name for a in arms], wins, told)}")
    if parts:
        return parts
    crashes, runs = sum(a.crashes for a in arms), sum(a.runs for a in arms)
    how_many = f"{crashes} of {runs} repeats" if crashes else f"none of {runs} repeats"
    return ["no difference between any two arms was found", f"{how_many} crashed"]


def _ranks(names: Sequence[str], wins: Mapping[str, set[str]], told: Mapping[str, str]) -> str:
    """A ranking where each place was shown; else who beats whom, and nothing about the rest."""
    order = sorted(names, key=lambda name: -len(wins[name]))
    if all(wins[x].issuperset(order[i + 1 :]) for i, x in enumerate(order)):
        return ", then ".join(name + told.get(name, "") for name in order)
    of_losers = itertools.groupby(
        (name for name in order if wins[name]), key=lambda name: sorted(wins[name])
    )
    return ", ".join(
        f"{joined([x + told.get(x, '') for x in winners])} "
        f"{'beat' if len(winners) > 1 else 'beats'} {joined([x + told.get(x, '') for x in losers])}"
        for losers, group in of_losers
        for winners in [list(group)]
    )


def _winner(c: Comparison) -> str:
    return {"a": c.a, "b": c.b}.get(c.verdict, "")


def _loser(c: Comparison) -> str:
    return {"a": c.b, "b": c.a}.get(c.verdict, "")


def _crashes(a: ArmSummary, b: ArmSummary, crash: Comparison | None) -> str:
    """Where no arm was found to be stabler."""
    if not a.crashes and not b.crashes:
        runs = f"{a.runs}" if a.runs == b.runs else f"{a.runs} and {b.runs}"
        return f"neither crashed in {runs} repeat{'s' * (runs != '1')}"
    alike = crash is not None and crash.verdict == "same"
    return (
        f"{a.name} crashed in {a.crashes} of {a.runs} repeats and {b.name} in {b.crashes} of "
        f"{b.runs}, " + ("which is the same" if alike else "which may be luck")
    )


def _gone(fixed: Sequence[Fixed], confidence: float) -> list[str]:
    """One clause an arm that is clean beside controls that crashed, for long enough."""
    controls: dict[str, list[Fixed]] = {}
    for of in fixed:
        if of.verdict == "fixed":
            controls.setdefault(of.b, []).append(of)
    return [
        f"{name} ran {of[0].clean_steps:,} steps without a crash, enough to say "
        f"({100 * confidence:.3g}% sure) that it is rid of the crashes of "
        f"{joined([f.a for f in of])}"
        for name, of in controls.items()
    ]


def _same(same: Sequence[Comparison]) -> list[str]:
    """ "throughput and memory are the same within 2%": one clause a margin."""
    return [
        f"{joined([phrases.noun(c) for c in of])} {'are' if len(of) > 1 else 'is'} "
        f"the same within {margin}"
        for margin, group in itertools.groupby(same, key=lambda c: phrases.amount(c, c.margin))
        for of in [list(group)]
    ]


def _lost(arms: Sequence[ArmSummary]) -> str:
    """Speed and quality of those that are left may flatter the arm that lost many."""
    many = [arm for arm in arms if arm.runs and arm.lost / arm.runs >= _MANY_LOST]
    if not many:
        return ""
    lost = joined([f"the {arm.lost} lost repeats of {arm.name}" for arm in many])
    return f"Speed and quality are judged without {lost}."


def _open(comparisons: Sequence[Comparison]) -> str:
    """What is not known, and what knowing it would take: of several pairs of arms, the most."""
    more: dict[str, int] = {}
    for c in comparisons:
        if c.verdict == "inconclusive":
            noun = phrases.noun(c)
            more[noun] = max(more.get(noun, 0), c.needs.more if c.needs else 0)
    if not more:
        return ""
    unit = itertools.chain([" more repeats"], itertools.repeat(""))
    told = [f"{noun} (about {n}{next(unit)})" if n else noun for noun, n in more.items()]
    return f"Not decided: {joined(told)}."
