"""The results of a study: the object behind the table, the files and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ttf.tools.ab.measures import MEASURES, Measure, Scale

# a, b: this arm is better, and not by luck; same: the difference is below the margin; inconclusive:
# neither is shown yet.
PairVerdict = Literal["a", "b", "same", "inconclusive"]
# fixed: clean for long enough while the control crashed; not yet: clean, but for too short a time;
# still crashes; not reproduced: the control did not crash, so nothing is known.
FixedVerdict = Literal["fixed", "not yet", "still crashes", "not reproduced"]

# Lower and upper bound; None: no bound (too few repeats).
Interval = tuple[float | None, float | None]
# (step, share of repeats without a crash so far, lower and upper bound of the share)
SurvivalPoint = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """One arm. Means are over finished repeats; None without any."""

    name: str
    runs: int  # counted repeats: clean, survived and lost
    crashes: int  # repeats with an incident: survived + lost
    survived: int
    lost: int
    left_out: int = 0  # void and invalid repeats
    crash_rate: float | None
    crash_rate_ci: Interval  # exact (Clopper and Pearson)
    incidents: int = 0  # a repeat may have several
    classes: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0  # of all counted repeats together
    steps_to_crash: float | None = None  # steps per incident; None without incidents
    samples_per_s: float | None = None
    peak_anon_mb: float | None = None
    memory_slope_mb_per_1k_steps: float | None = None
    loss: float | None = None  # mean of the last quarter
    metrics: Mapping[str, float] = field(default_factory=dict)
    # Kaplan-Meier curve: a share holds from its step on; starts at step 0.
    survival: tuple[SurvivalPoint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The repeats needed for a verdict, if the arms stay as they are so far."""

    more: int  # per arm
    total: int
    # The chance of a verdict with `total`. None: too few repeats to estimate; `total` is the
    # smallest number that allows a verdict.
    power: float | None
    for_effect: float | None  # the effect seen, assumed to be the true one
    reason: str  # a sentence: what for, and the assumptions


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two arms by one measure. `effect` is b / a - 1 for the scale "ratio", else b - a."""

    a: str
    b: str
    metric: str
    label: str
    scale: Scale
    unit: str = ""
    higher_is_better: bool
    n: int  # Pairs with a value in both arms; for the scale "rate" the repeats of the smaller arm.
    value_a: float | None  # means of the compared values; None if nothing was compared
    value_b: float | None
    effect: float | None
    # At `Analysis.confidence`, for this measure alone: excludes 0 exactly if p_value is below 1 -
    # confidence (scale "rate": Newcombe's interval, almost exactly).
    ci: Interval
    # the narrower interval that must lie within the margin for "same"
    ci_same: Interval = (None, None)
    p_value: float | None  # not corrected; None if nothing was compared
    # Holm's correction over all comparisons of the study; significant below 1 -
    # `Analysis.confidence`.
    p_adjusted: float | None
    verdict: PairVerdict
    margin: float
    # Whether so many repeats can show a difference at all: with fewer, none is as rare as the
    # corrected level.
    decidable: bool = True
    needs: Needs | None = None  # only if inconclusive; None also if no number can be given
    note: str = ""  # a warning about the figures, mostly empty

    @property
    def measure(self) -> Measure:
        return MEASURES[self.metric]

    @property
    def winner(self) -> str:
        """The better arm, or ""."""
        return {"a": self.a, "b": self.b}.get(self.verdict, "")

    @property
    def loser(self) -> str:
        return {"a": self.b, "b": self.a}.get(self.verdict, "")


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Whether B no longer has the crashes that A, the control, shows."""

    a: str
    b: str
    verdict: FixedVerdict
    control_crashes: int
    control_steps: int
    clean_steps: int  # of B; 0 if it crashed
    needed_steps: int | None  # None if the control did not crash
    # The chance of this clean stretch if nothing had changed. None if the control did not crash, or
    # B did.
    p: float | None
    more_runs: int | None = None  # of B, at the mean length so far; only for "not yet"


@dataclass(frozen=True, kw_only=True)
class Bitwise:
    """Pairs with recorded final weights, and how many are bitwise equal."""

    a: str
    b: str
    pairs: int
    equal: int
    # mean distance of a pair's loss curves, over steps and pairs
    loss_distance: float | None = None


@dataclass(frozen=True, kw_only=True)
class InterimLook:
    """A sequential study is judged several times, each time with a part of the allowed error."""

    blocks: int
    alpha: float  # the part of this look


@dataclass(frozen=True, kw_only=True)
class Analysis:
    arms: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]  # by pair of arms, then by measure: crash rate first
    fixed: tuple[Fixed, ...] = ()  # of every ordered pair; a is the control
    bitwise: tuple[Bitwise, ...] = ()
    verdict: str  # a few short sentences
    # Of intervals and verdicts: 1 - alpha, or higher at a look of a sequential study.
    confidence: float
    alpha: float  # the chance that a study of equal arms finds any difference
    power: float
    blocks: int  # complete blocks: every arm has a counted sample
    looks: tuple[InterimLook, ...] = ()  # all so far, this one last; () unless sequential
    settled: bool = False  # a sequential study may end
