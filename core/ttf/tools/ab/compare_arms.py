"""Two arms by one measure: the test, the verdict, and the repeats needed for one.

A difference is found if Holm's adjusted p is below the level. "Same" is two one-sided tests at the
level: the interval at 1 - 2 * level lies within the margin. Truly different arms lie beyond only
one end, so each false "same" has at most the chance `level`; the wider interval of the table would
need a fifth more repeats. "Same" comes first: a difference that is found but surely smaller than
the margin is "same" with a note.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ttf.tools.ab.analysis import Comparison, Interval, Needs, PairVerdict
from ttf.tools.ab.measures import CRASH_RATE, OF_COMMANDS, PAIRED, Measure, at_time
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.stats import boschloo, paired, power_rates, rates
from ttf.tools.ab.stats.paired import SignFlip, sign_flip

Blocks = Mapping[int, Sample]  # The counted sample of each block, of one arm.
_AT_EQUAL_TIME = " at equal time"


@dataclass(frozen=True, kw_only=True)
class PairTest:
    """The test of a pair, before correction."""

    a: str
    b: str
    measure: Measure
    n: int
    blocks: int
    value_a: float | None = None
    value_b: float | None = None
    # scale "rate": crashes of A, repeats of A, crashes of B, repeats of B
    crashes: tuple[int, int, int, int] | None = None
    flip: SignFlip | None = None
    sigma: float | None = None
    note: str = ""

    @property
    def p_value(self) -> float | None:
        if self.crashes is not None:
            a, of_a, b, of_b = self.crashes
            return boschloo.p_value(a, of_a, b, of_b)
        return None if self.flip is None else self.flip.p_value()

    @property
    def effect(self) -> float | None:
        if self.crashes is not None:
            a, of_a, b, of_b = self.crashes
            return b / of_b - a / of_a
        return None if self.flip is None else self._in_unit(self.flip.mean)

    def interval(self, alpha: float) -> Interval:
        if self.crashes is not None:
            return rates.newcombe(*self.crashes, confidence=1 - alpha)
        if self.flip is None:
            return None, None
        low, high = self.flip.interval(alpha)
        return (
            None if low is None else self._in_unit(low),
            None if high is None else self._in_unit(high),
        )

    def _in_unit(self, value: float) -> float:
        return math.expm1(value) if self.measure.scale == "ratio" else value


def compare(
    a: str, b: str, of_a: Blocks, of_b: Blocks, margins: Mapping[str, float]
) -> list[PairTest]:
    """By crash rate, and by each measure that a repeat of these arms has."""
    both = sorted(of_a.keys() & of_b.keys())
    pairs = [(of_a[k], of_b[k]) for k in both]
    tests = [_crash_test(a, b, of_a, of_b, len(both))] if of_a and of_b else []
    for measure in (*PAIRED, *OF_COMMANDS):
        values, known, note = _paired_values(measure, pairs)
        if known:
            tests.append(_paired_test(a, b, measure, values, len(both), note))
    return [
        replace(c, measure=replace(c.measure, margin=margins.get(c.measure.name, c.measure.margin)))
        for c in tests
    ]


def decide(
    c: PairTest,
    p_adjusted: float | None,
    level: float,
    *,
    needs_level: float,
    family: int,
    power: float,
) -> Comparison:
    """The comparison with its verdict, from the corrected p."""
    measure, effect = c.measure, c.effect
    different = p_adjusted is not None and p_adjusted < level
    low, high = c.interval(2 * level)
    same = (
        low is not None and high is not None and -measure.margin <= low and high <= measure.margin
    )
    verdict: PairVerdict = "inconclusive"
    note = c.note
    if same:
        verdict = "same"
        if different:
            note = _joined(note, "there is a difference, but it is too small to matter")
    elif different and effect is not None:
        verdict = "b" if (effect > 0) == measure.higher_is_better else "a"
    return Comparison(
        a=c.a,
        b=c.b,
        metric=measure.name,
        label=measure.label,
        scale=measure.scale,
        unit=measure.unit,
        higher_is_better=measure.higher_is_better,
        n=c.n,
        value_a=c.value_a,
        value_b=c.value_b,
        effect=effect,
        ci=c.interval(level),
        ci_same=(low, high),
        p_value=c.p_value,
        p_adjusted=p_adjusted,
        verdict=verdict,
        margin=measure.margin,
        decidable=_decidable(c, level / max(1, family)),
        needs=_needs(c, needs_level, family, power) if verdict == "inconclusive" else None,
        note=note,
    )


def _decidable(c: PairTest, alone: float) -> bool:
    if c.crashes is not None:
        _, of_a, _, of_b = c.crashes
        return boschloo.p_value(0, of_a, of_b, of_b) < alone
    return c.n >= paired.fewest_pairs(alone)


def fewest_repeats(arms: int, level: float, measures: int = len(PAIRED)) -> int:
    """Of every arm, to find any difference that is not one of crashes, before the study knows which
    measures its arms have."""
    family = math.comb(arms, 2) * (1 + measures)
    return paired.fewest_pairs(level / family)


def _needs(c: PairTest, level: float, family: int, power: float) -> Needs | None:
    """Repeats until a verdict, if the arms stay as they are: the smaller number of two. One to find
    the difference seen, at the level that Holm's correction leaves the smallest p (the worst case);
    one to show that the arms are the same.

    Assumes that the spread stays as it is. An effect from few repeats is itself uncertain, so this
    is computed again each time.
    """
    effect, margin, alone = c.effect, c.measure.margin, level / max(1, family)
    if effect is None:
        return None
    if c.crashes is not None:
        a, of_a, b, of_b = c.crashes
        differ = power_rates.to_differ(a / of_a, b / of_b, alone, power)
        same = power_rates.to_be_same(a / of_a, b / of_b, margin, level, power)
    elif c.sigma is None:
        fewest = paired.fewest_pairs(alone)
        why = f"with fewer than {fewest} repeats, a difference cannot be distinguished from chance"
        return Needs(more=fewest - c.n, total=fewest, power=None, for_effect=None, reason=why)
    else:
        assert c.flip is not None
        differ = paired.to_differ(c.flip.mean, c.sigma, alone, power)
        same = paired.to_be_same(c.flip.mean, c.sigma, margin, level, power)
    if differ is None and same is None:
        return None
    show_same = differ is None or (same is not None and same < differ)
    pairs = same if show_same else differ
    assert pairs is not None
    # Where repeats are lost, it takes more of them for as many pairs.
    total = max(math.ceil(pairs * c.blocks / c.n) if c.crashes is None else pairs, c.blocks + 1)
    what = (
        "to show that they are the same"
        if show_same
        else "to prove the difference that was measured"
    )
    return Needs(
        more=total - c.blocks,
        total=total,
        power=power,
        for_effect=effect,
        reason=f"{what}, if further repeats give similar values",
    )


def _crash_test(a: str, b: str, of_a: Blocks, of_b: Blocks, blocks: int) -> PairTest:
    crashed = [sum(s.crashed for s in of.values()) for of in (of_a, of_b)]
    return PairTest(
        a=a,
        b=b,
        measure=CRASH_RATE,
        n=min(len(of_a), len(of_b)),
        blocks=blocks,
        value_a=crashed[0] / len(of_a),
        value_b=crashed[1] / len(of_b),
        crashes=(crashed[0], len(of_a), crashed[1], len(of_b)),
    )


def _paired_values(
    measure: Measure, pairs: list[tuple[Sample, Sample]]
) -> tuple[list[tuple[float, float]], bool, str]:
    """Values of pairs in which both arms have one; whether any sample has one; a note.

    A lost repeat has none: its loss curve is cut and it has no final evaluation.
    """
    finished = [s for pair in pairs for s in pair if s.outcome != "lost"]
    read, note = measure.read, ""
    if measure.name.endswith(_AT_EQUAL_TIME):
        metric = measure.name.removesuffix(_AT_EQUAL_TIME)
        seconds = min((s.evaluated[-1].seconds for s in finished if s.evaluated), default=0.0)
        note = f"after {seconds:.0f} s, the time that all repeats reached"

        def read(sample: Sample) -> float | None:
            return at_time(sample, seconds, metric)

    def value(sample: Sample) -> float | None:
        number = None if sample.outcome == "lost" else read(sample)
        return None if number is not None and measure.scale == "ratio" and number <= 0 else number

    read_pairs = [(value(x), value(y)) for x, y in pairs]
    lost = sum("lost" in (x.outcome, y.outcome) for x, y in pairs)
    if lost:
        note = _joined(note, (f"{lost} of {len(pairs)} pairs are missing because a repeat was lost, so the "
                "other pairs may give too good a picture"))  # fmt: skip
    known = any(v is not None for pair in read_pairs for v in pair)
    both = [(x, y) for x, y in read_pairs if x is not None and y is not None]
    finite = [(x, y) for x, y in both if math.isfinite(x) and math.isfinite(y)]
    if len(finite) < len(both):
        note = _joined(note, (f"{len(both) - len(finite)} of {len(pairs)} pairs are missing because a value is "
                "not finite"))  # fmt: skip
    return finite, known, note


def _paired_test(
    a: str, b: str, measure: Measure, values: list[tuple[float, float]], blocks: int, note: str
) -> PairTest:
    if not values:
        return PairTest(a=a, b=b, measure=measure, n=0, blocks=blocks, note=note)
    ratio = measure.scale == "ratio"
    differences = [math.log(y / x) if ratio else y - x for x, y in values]
    return PairTest(
        a=a,
        b=b,
        measure=measure,
        n=len(values),
        blocks=blocks,
        value_a=statistics.fmean(x for x, _ in values),
        value_b=statistics.fmean(y for _, y in values),
        flip=sign_flip(differences),
        sigma=statistics.stdev(differences) if len(values) > 1 else None,
        note=note,
    )


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
