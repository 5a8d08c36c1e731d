"""How the study was measured, and the meaning of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.output import words
from ttf.tools.ab.sample import Sample

Row = tuple[str, str]


_MEANING: Final[Mapping[str, str]] = {
    "a repeat": "A training run in processes of its own, whose configuration no crash may change. It "
    "counts as crashed when any incident happened in it: it survived if it finished all the "
    "same, else it is lost.",
    "a pair": "Arms of one block have the same seed and ran after one another, in a random, "
    "balanced order. Speed, memory and quality are compared within such pairs, so what slows the "
    "machine down for a while slows both.",
    "crash rates": "The interval of one arm is exact (Clopper and Pearson), two arms are compared "
    "by an exact test (Boschloo). Few repeats therefore give wide intervals: 0 of 20 still "
    "allows for 17%.",
    "everything else": "The signs of the differences within pairs are flipped in all ways; p is "
    "the share of ways that go as far as what was seen. No distribution is assumed. {fewest}",
    "survival": "Kaplan and Meier's curve: the share of repeats that had not crashed up to a step. "
    "A repeat that ended without a crash leaves at its last step (a notch) and counts neither for "
    "nor against the arm after it.",
    "the verdicts": "Every p is corrected for the number of comparisons, {tests} (Holm), so that "
    "the chance of even one false alarm in the study is at most {alpha}. "
    '"Same" is shown too: the whole interval lies within the margin. "Inconclusive" is neither, '
    "and says what would tell.",
    "intervals": "{share} each, of that comparison by itself. One may leave out 0 where the verdict "
    "is still open: the verdict allows for all the other comparisons.",
    "sequential": "It was judged while it went on, and each look may spend only a part of the error "
    "({looks} repeats). So stopping early does not make a false alarm likelier.",
}


def how(analysis: Analysis, samples: Sequence[Sample], facts: Mapping[str, str]) -> list[Row]:
    """The facts from the samples, then those of the caller: command, machine, arms."""
    return [*_from_samples(analysis, samples), *facts.items()]


def meaning(analysis: Analysis) -> Iterator[Row]:
    values = {
        "share": words.percent(analysis.confidence),
        "alpha": words.percent(analysis.alpha),
        "tests": _num_tests(analysis),
        "fewest": _fewest(analysis),
        "looks": ", ".join(f"{look.alpha:.2g} after {look.blocks}" for look in analysis.looks),
    }
    for what, text in _MEANING.items():
        if what != "sequential" or analysis.looks:
            yield what, text.format(**values)


def _from_samples(analysis: Analysis, samples: Sequence[Sample]) -> Iterator[Row]:
    arms = len(analysis.arms)
    yield (
        "repeats",
        (
            f"{analysis.blocks} complete {words.plural(analysis.blocks, 'block')} of {arms} "
            f"{words.plural(arms, 'arm')}; {sum(s.counted for s in samples)} repeats count"
        ),
    )
    out = {kind: sum(s.outcome == kind for s in samples) for kind in ("void", "invalid")}
    if any(out.values()):
        yield (
            "left out",
            f"{out['void']} that somebody else ended, {out['invalid']} that could not be run",
        )
    if seeds := sorted({s.seed for s in samples}):
        span = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        yield "seeds", f"{span}, one a block"
    steps = sorted({s.steps for s in samples if s.outcome == "clean" and s.steps})
    if steps:
        span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        yield "steps of a clean repeat", span


def _fewest(analysis: Analysis) -> str:
    # Small studies can have clear differences without a verdict.
    from ttf.tools.ab.stats.paired import fewest_pairs

    count = max(1, _num_tests(analysis))
    pairs = fewest_pairs((1 - analysis.confidence) / count)
    return f"As one of {count} comparisons it takes at least {pairs} pairs to show anything."


def _num_tests(analysis: Analysis) -> int:
    return sum(c.p_value is not None for c in analysis.comparisons)
