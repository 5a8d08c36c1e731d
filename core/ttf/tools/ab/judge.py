"""From samples to an `Analysis`: which arm is better by which measure, and what is still open.

Holm's correction covers all comparisons of the study: every pair of arms, every measure. Also if a
reader looks at only one figure, since readers look at the figure that stands out.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ttf.tools.ab import compare_arms, verdict
from ttf.tools.ab.analysis import (
    Analysis,
    ArmSummary,
    Bitwise,
    Comparison,
    Fixed,
    InterimLook,
    Interval,
)
from ttf.tools.ab.compare_arms import Blocks, PairTest
from ttf.tools.ab.measures import PAIRED, last_quarter, loss_distance
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.stats import fixed, rates, sequential, survival
from ttf.tools.ab.stats.correction import holm

_LEAST_LEVEL = 1e-12
# With this share of the repeats for 80% power, the power is 50% (at usual levels).
_EVEN_CHANCE = 0.6


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    alpha: float = 0.05  # the chance that a study of equal arms finds any difference
    power: float = 0.8
    margins: Mapping[str, float] = field(default_factory=dict)  # by measure, instead of the default
    planned: int | None = None  # blocks of the whole study; needed with looks
    looks: tuple[int, ...] = ()  # rising blocks of the looks of a sequential study, this one last

    def __post_init__(self) -> None:
        assert 0 < self.alpha < 1 and 0 < self.power < 1
        assert not self.looks or self.planned is not None

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each look; without looks one level."""
        return self._spent(self.looks) if self.looks else (self.alpha,)

    @property
    def last_level(self) -> float:
        """The level of the last planned look, for later verdicts."""
        if not self.looks or self.planned is None or self.looks[-1] >= self.planned:
            return self.levels[-1]
        looks = sequential.when_to_look(self.planned)
        to_come = tuple(look for look in looks if look > self.looks[-1])
        return self._spent((*self.looks, *to_come))[-1]

    def _spent(self, looks: tuple[int, ...]) -> tuple[float, ...]:
        # Not 0, which tests and intervals cannot handle.
        levels = sequential.levels(looks, self.planned or 0, self.alpha)
        return tuple(max(level, _LEAST_LEVEL) for level in levels)


def judge(
    samples: Sequence[Sample], arms: Sequence[str], settings: JudgeSettings | None = None
) -> Analysis:
    """Leaves out void and invalid samples. If a block was run twice, the later sample counts."""
    settings = settings or JudgeSettings()
    blocks = {arm: {s.block: s for s in samples if s.arm == arm and s.counted} for arm in arms}
    level = settings.levels[-1]
    summaries = tuple(_summary(arm, samples, blocks[arm], 1 - level) for arm in arms)
    pairs = list(itertools.combinations(arms, 2))
    tests = [
        c
        for a, b in pairs
        for c in compare_arms.compare(a, b, blocks[a], blocks[b], settings.margins)
    ]
    comparisons = _decide(tests, level, settings)
    fixed_pairs = tuple(
        _fixed(a, b, blocks[a], blocks[b], level / len(pairs))
        for a, b in itertools.permutations(arms, 2)
        if not any(s.of_command for s in samples)  # the hazard is one of steps
    )
    looks = tuple(
        InterimLook(blocks=look, alpha=spent)
        for look, spent in zip(settings.looks, settings.levels, strict=False)
    )
    return Analysis(
        arms=summaries,
        comparisons=comparisons,
        fixed=fixed_pairs,
        bitwise=tuple(_bitwise(a, b, blocks[a], blocks[b]) for a, b in pairs),
        verdict=verdict.sentence(summaries, comparisons, fixed_pairs, 1 - level),
        confidence=1 - level,
        alpha=settings.alpha,
        power=settings.power,
        blocks=len(set.intersection(*(set(of_arm) for of_arm in blocks.values()))) if arms else 0,
        looks=looks,
        settled=bool(looks)
        and _settled(comparisons, fixed_pairs, looks[-1], settings.planned or 0),
    )


def fewest_repeats(arms: int, settings: JudgeSettings, measures: int = len(PAIRED)) -> int:
    """Of every arm, to find any difference that is not one of crashes."""
    return compare_arms.fewest_repeats(arms, settings.last_level, measures)


def _decide(
    tests: Sequence[PairTest], level: float, settings: JudgeSettings
) -> tuple[Comparison, ...]:
    tested = [i for i, c in enumerate(tests) if c.p_value is not None]
    adjusted: dict[int, float] = dict(
        zip(tested, holm([p for c in tests if (p := c.p_value) is not None]), strict=True)
    )
    return tuple(
        compare_arms.decide(
            c,
            adjusted.get(i),
            level,
            needs_level=settings.last_level,
            family=len(tested),
            power=settings.power,
        )
        for i, c in enumerate(tests)
    )


def _settled(
    comparisons: Sequence[Comparison], fixed_pairs: Sequence[Fixed], look: InterimLook, planned: int
) -> bool:
    # Every pair of arms has a verdict, and no other comparison has an even chance in the remaining
    # repeats. Ending for lack of hope costs no error; a study without any verdict goes on.
    decided = {(c.a, c.b) for c in comparisons if c.verdict != "inconclusive"}
    left = planned - look.blocks
    hopeful = any(c.needs and _EVEN_CHANCE * c.needs.total <= planned for c in comparisons)
    nearly = any(f.more_runs is not None and f.more_runs <= left for f in fixed_pairs)
    everywhere = {(c.a, c.b) for c in comparisons} == decided
    return bool(decided) and everywhere and not hopeful and not nearly


def _summary(name: str, samples: Sequence[Sample], blocks: Blocks, confidence: float) -> ArmSummary:
    of_arm = list(blocks.values())
    finished = [s for s in of_arm if s.outcome != "lost"]
    crashes = sum(s.crashed for s in of_arm)
    interval: Interval = (0.0, 1.0)
    if of_arm:
        interval = rates.clopper_pearson(crashes, len(of_arm), confidence)
    steps, incidents = sum(s.steps for s in of_arm), sum(map(_incidents, of_arm))
    names = sorted({metric for s in finished for metric in s.metrics})
    ends = [(s.lasted, s.crashed) for s in of_arm]
    return ArmSummary(
        name=name,
        runs=len(of_arm),
        crashes=crashes,
        survived=sum(s.outcome == "survived" for s in of_arm),
        lost=sum(s.outcome == "lost" for s in of_arm),
        left_out=sum(s.arm == name and not s.counted for s in samples),
        crash_rate=crashes / len(of_arm) if of_arm else None,
        crash_rate_ci=interval,
        incidents=incidents,
        classes=dict(Counter(i.name for s in of_arm for i in s.incidents).most_common()),
        steps=steps,
        steps_to_crash=steps / incidents if incidents and steps else None,
        samples_per_s=_mean([s.samples_per_s for s in finished]),
        peak_anon_mb=_mean([s.peak_anon_mb for s in finished]),
        memory_slope_mb_per_1k_steps=_mean([s.memory_slope_mb_per_1k_steps for s in finished]),
        loss=_mean([last_quarter(s) for s in finished]),
        metrics={
            metric: mean
            for metric in names
            if (mean := _mean([s.metrics.get(metric) for s in finished])) is not None
        },
        survival=survival.kaplan_meier(ends, confidence) if ends and steps else (),
    )


def _fixed(a: str, b: str, of_a: Blocks, of_b: Blocks, alpha: float) -> Fixed:
    # A constant hazard is estimated from all incidents and steps of the control. `alpha` is shared
    # among the pairs of a study.
    crashes, steps = (sum(map(_incidents, of_a.values())), sum(s.steps for s in of_a.values()))
    crashed = any(s.crashed for s in of_b.values())
    clean = 0 if crashed else sum(s.steps for s in of_b.values())
    if not crashes or not steps:
        return Fixed(a=a, b=b, verdict="not reproduced", control_crashes=crashes, p=None,
                     control_steps=steps, clean_steps=clean, needed_steps=None)  # fmt: skip
    needed = fixed.needed_steps(crashes, steps, alpha)
    more = None
    if not crashed and clean < needed and clean:
        more = math.ceil((needed - clean) / (clean / len(of_b)))
    return Fixed(
        a=a,
        b=b,
        verdict="still crashes" if crashed else "fixed" if clean >= needed else "not yet",
        control_crashes=crashes,
        control_steps=steps,
        clean_steps=clean,
        needed_steps=needed,
        p=None if crashed else fixed.p_value(crashes, steps, clean),
        more_runs=more,
    )


def _incidents(sample: Sample) -> int:
    return max(1, len(sample.incidents)) if sample.crashed else 0


def _bitwise(a: str, b: str, of_a: Blocks, of_b: Blocks) -> Bitwise:
    both = [(of_a[k], of_b[k]) for k in sorted(of_a.keys() & of_b.keys())]
    hashes = [(x.weights_sha256, y.weights_sha256) for x, y in both]
    known = [(x, y) for x, y in hashes if x and y]
    return Bitwise(
        a=a,
        b=b,
        pairs=len(known),
        equal=sum(x == y for x, y in known),
        loss_distance=_mean([loss_distance(x, y) for x, y in both]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) / len(known) if known else None
