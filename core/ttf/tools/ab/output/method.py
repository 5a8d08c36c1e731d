"""How the study was measured, and the meaning of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.output import words
from ttf.tools.ab.sample import Sample

Row = tuple[str, str]


_MEANING: Final[Mapping[str, str]] = {
    "a repeat": (
        "A training run in its own processes. A crash does not change its configuration. A "
        "repeat with any incident counts as crashed: it survived if it finished anyway, "
        "otherwise it is lost."
    ),
    "a repeat of a command": (
        "The command under ttf guard, in its own processes. A repeat crashed if it died of a "
        "signal, ended with another exit code than 0, or hung."
    ),
    "a pair": (
        "The repeats of one block have the same seed and ran one after another, in a random, "
        "balanced order. Speed, memory and quality are compared within such pairs. If the "
        "machine is slow for some time, it is slow for both repeats of a pair."
    ),
    "crash rates": (
        "The interval of one arm is exact (Clopper and Pearson). Two arms are compared by an "
        "exact test (Boschloo). Few repeats give wide intervals: after 0 crashes in 20 "
        "repeats, a crash rate of 17% is still possible."
    ),
    "everything else": (
        "A permutation test flips the signs of the differences within pairs in all possible "
        "ways; p is the share of ways with a difference at least as large as the measured "
        "one. The test assumes no distribution. {fewest}"
    ),
    "survival": (
        "The Kaplan-Meier curve: the share of repeats that had not crashed before a step. A "
        "repeat that ended without a crash (a notch in the curve) does not count after its "
        "last step."
    ),
    "the verdicts": (
        "Every p is corrected for the number of comparisons, {tests} (Holm), so the chance of "
        'one or more false alarms in the study is at most {alpha}. "Same" means that the '
        'whole interval lies within the margin. "Inconclusive" means that neither a '
        "difference nor equality was shown; the verdict then gives the number of repeats that "
        "would show it."
    ),
    "intervals": (
        "Each interval has a confidence of {share} for its comparison alone. An interval may "
        "exclude 0 although the verdict is inconclusive, because the verdict is corrected for "
        "all other comparisons."
    ),
    "sequential": (
        "The study was evaluated several times while it ran. Each evaluation uses only a part "
        "of the allowed error ({looks} repeats), so an early stop does not make a false alarm "
        "more likely."
    ),
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
        if what in ("a repeat", "survival") and words.of_commands(analysis):
            continue
        if what == "a repeat of a command" and not words.of_commands(analysis):
            continue
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
            (
                f"{out['void']} repeats that another program or a person ended, {out['invalid']} that "
                "could not run"
            ),
        )
    if seeds := sorted({s.seed for s in samples}):
        span = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        yield "seeds", f"{span}, one per block"
    steps = sorted({s.steps for s in samples if s.outcome == "clean" and s.steps})
    if steps:
        span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        yield "steps of a repeat without crashes", span


def _fewest(analysis: Analysis) -> str:
    # Small studies can have clear differences without a verdict.
    from ttf.tools.ab.stats.paired import fewest_pairs

    count = max(1, _num_tests(analysis))
    pairs = fewest_pairs((1 - analysis.confidence) / count)
    return (
        f"In a study with {count} comparisons, a difference can be shown only with at least "
        f"{pairs} pairs."
    )


def _num_tests(analysis: Analysis) -> int:
    return sum(c.p_value is not None for c in analysis.comparisons)
