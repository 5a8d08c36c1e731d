"""What a study came to: the one object that the table, the files and the page are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ttf.tools.ab.measures import MEASURES, Measure, Scale

PairVerdict = Literal["a", "b", "same", "inconclusive"]
"""a, b: that arm is better, and not by luck; same: they differ by less than the margin;
inconclusive: neither has been shown yet."""
FixedVerdict = Literal["fixed", "not yet", "still crashes", "not reproduced"]
"""fixed: clean for long enough beside a control that crashed; not yet: clean, for too short a time;
still crashes: it did; not reproduced: the control did not crash, so nothing is known."""

Interval = tuple[float | None, float | None]
"""Lower and upper bound; None: no bound (there are too few repeats for one)."""
SurvivalPoint = tuple[float, float, float, float]
"""(step, share of repeats without a crash until after it, lower and upper bound of the share)."""


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """One arm. Means are over repeats that finished; None: nothing to take the mean of."""

    name: str
    runs: int
    """Repeats that count: clean, survived and lost ones."""
    crashes: int
    """Repeats with an incident in them: survived + lost."""
    survived: int
    lost: int
    left_out: int = 0
    """Void and invalid ones."""
    crash_rate: float | None
    crash_rate_ci: Interval
    """Exact (Clopper and Pearson)."""
    incidents: int = 0
    """A repeat may have several."""
    classes: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    """Carried out by all counted repeats together."""
    steps_to_crash: float | None = None
    """Steps carried out per incident; None without incidents."""
    samples_per_s: float | None = None
    peak_anon_mb: float | None = None
    memory_slope_mb_per_1k_steps: float | None = None
    loss: float | None = None
    """Mean of the last quarter."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    survival: tuple[SurvivalPoint, ...] = ()
    """Kaplan and Meier's curve, a stair: from its step on the share holds; starts at step 0."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """How many repeats a verdict would take, if the arms are what they looked like so far."""

    more: int
    """Per arm."""
    total: int
    power: float | None
    """The chance of a verdict with them; None: too few repeats so far to tell, and `total` is the
    fewest with which a verdict is possible at all."""
    for_effect: float | None
    """The difference assumed to be the true one, in the unit of the effect: the one seen."""
    reason: str
    """A sentence: what for, and what was assumed."""


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
    n: int
    """Pairs with a value in both arms; for the scale "rate" the repeats of the smaller arm."""
    value_a: float | None
    """Mean over what was compared; None where nothing could be."""
    value_b: float | None
    effect: float | None
    ci: Interval
    """At `Analysis.confidence`, of this measure by itself: it leaves 0 exactly when p_value is
    below 1 - confidence (scale "rate": Newcombe's interval, nearly so)."""
    ci_same: Interval = (None, None)
    """The narrower one that must lie within the margin for "same"."""
    p_value: float | None
    """Raw; None where nothing could be compared."""
    p_adjusted: float | None
    """After Holm's correction over all comparisons of the study: a difference has been found where
    this is below 1 - `Analysis.confidence`."""
    verdict: PairVerdict
    margin: float
    needs: Needs | None = None
    """Only where inconclusive; None also where no number could be given."""
    note: str = ""
    """What a reader must know before believing the figures; "" mostly."""

    @property
    def measure(self) -> Measure:
        return MEASURES[self.metric]

    @property
    def winner(self) -> str:
        """The arm that is better; "" without one."""
        return {"a": self.a, "b": self.b}.get(self.verdict, "")

    @property
    def loser(self) -> str:
        return {"a": self.b, "b": self.a}.get(self.verdict, "")


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Has B got rid of the crashes that A, the control beside it, shows?"""

    a: str
    b: str
    verdict: FixedVerdict
    control_crashes: int
    control_steps: int
    clean_steps: int
    """Of B, 0 where it crashed."""
    needed_steps: int | None
    """None without crashes of the control."""
    p: float | None
    """The chance of so long a clean stretch, had nothing changed; None without crashes of the
    control and where B crashed."""
    more_runs: int | None = None
    """Of B, as long as those so far; only for "not yet"."""


@dataclass(frozen=True, kw_only=True)
class Bitwise:
    """Pairs whose final weights were written down, and how many are equal to the last bit."""

    a: str
    b: str
    pairs: int
    equal: int
    loss_distance: float | None = None
    """How far the loss curves of a pair lie apart, on average over steps and pairs."""


@dataclass(frozen=True, kw_only=True)
class InterimLook:
    """A sequential study is judged after some blocks, each time with a part of the error."""

    blocks: int
    alpha: float
    """What this look may spend."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    arms: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]
    """By pair of arms, in their order, then by measure: crash rate first."""
    fixed: tuple[Fixed, ...] = ()
    """Of every ordered pair, a the control."""
    bitwise: tuple[Bitwise, ...] = ()
    verdict: str
    """One sentence, or a few short ones, for somebody who reads nothing else."""
    confidence: float
    """Of intervals and verdicts: 1 - alpha, or higher at a look of a sequential study."""
    alpha: float
    """The chance that a whole study of equal arms finds any difference."""
    power: float
    blocks: int
    """Complete ones: every arm has a counted sample."""
    looks: tuple[InterimLook, ...] = ()
    """Those taken, this one last; () unless sequential."""
    settled: bool = False
    """A sequential study need not go on."""
