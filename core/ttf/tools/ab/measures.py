"""What arms are compared by: how each measure is read of a sample, which way is better, and what
difference is too small to matter."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ttf.tools.ab.sample import Sample

Scale = Literal["rate", "ratio", "difference"]
"""rate: a share of repeats; ratio: compared as b / a - 1; difference: as b - a."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What it is, how it is read, and every word that is said of it."""

    name: str
    label: str
    scale: Scale
    higher_is_better: bool
    margin: float
    """Arms closer than this are the same, in the unit of the effect."""
    unit: str = ""
    read: Callable[[Sample], float | None]
    digits: int = 3
    """Behind the point, of a difference."""
    can_be_negative: bool = False
    is_share: bool = False
    """Differences are said in points of 100."""
    follows: str = ""
    """Not said where the same arm is better by this other measure, which people know."""
    is_headline: bool = False
    """Said whatever the verdict; others only where arms differ."""
    heading: str = ""
    """Of its column in tables of arms; "": it has none."""
    short: str
    """In at most 22 letters."""
    noun: str
    """In sentences."""
    ranking: str
    """What a ranking by it is a ranking of, best first."""
    wins: str
    """What the better arm does, in a table: "is faster"."""
    better: str = ""
    """The same with the difference, in a sentence: "is {} faster". Not for crash rates."""
    worse: str = ""


CRASH_RATE: Final = Measure(
    name="crash_rate",
    label="repeats that crashed",
    scale="rate",
    higher_is_better=False,
    margin=0.05,
    read=lambda s: float(s.crashed),
    is_headline=True,
    short="repeats that crashed",
    noun="crash rate",
    ranking="stability",
    wins="crashes less",
)
PAIRED: Final[tuple[Measure, ...]] = (
    Measure(
        name="samples_per_s",
        label="throughput",
        scale="ratio",
        higher_is_better=True,
        margin=0.02,
        unit="samples/s",
        read=lambda s: s.samples_per_s,
        is_headline=True,
        heading="samples/s",
        short="throughput",
        noun="throughput",
        ranking="speed",
        wins="is faster",
        better="is {} faster",
        worse="is {} slower",
    ),
    Measure(
        name="peak_anon_mb",
        label="peak memory",
        scale="ratio",
        higher_is_better=False,
        margin=0.02,
        unit="MB",
        read=lambda s: s.peak_anon_mb,
        is_headline=True,
        heading="peak MB",
        short="peak memory",
        noun="memory",
        ranking="least memory",
        wins="needs less",
        better="needs {} less memory",
        worse="needs {} more memory",
    ),
    Measure(
        name="memory_slope_mb_per_1k_steps",
        label="memory growth",
        scale="difference",
        higher_is_better=False,
        margin=1.0,
        unit="MB per 1,000 steps",
        read=lambda s: s.memory_slope_mb_per_1k_steps,
        digits=1,
        can_be_negative=True,
        heading="growth",
        short="memory growth",
        noun="memory growth",
        ranking="least memory growth",
        wins="grows less",
        better="grows less by {}",
        worse="grows more by {}",
    ),
    Measure(
        name="loss",
        label="loss, mean of the last quarter",
        scale="difference",
        higher_is_better=False,
        margin=0.01,
        read=lambda s: last_quarter(s),
        follows="recall@10",
        short="loss, last quarter",
        noun="loss",
        ranking="lowest loss",
        wins="is lower",
        better="ends at a loss lower by {}",
        worse="ends at a loss higher by {}",
    ),
    Measure(
        name="recall@10",
        label="recall@10 after equal steps",
        scale="difference",
        higher_is_better=True,
        margin=0.005,
        read=lambda s: s.metrics.get("recall@10"),
        is_share=True,
        is_headline=True,
        heading="recall@10",
        short="recall@10, equal steps",
        noun="recall",
        ranking="recall",
        wins="finds more",
        better="finds {} more",
        worse="finds {} less",
    ),
    Measure(
        name="mrr@10",
        label="MRR@10 after equal steps",
        scale="difference",
        higher_is_better=True,
        margin=0.005,
        read=lambda s: s.metrics.get("mrr@10"),
        is_share=True,
        follows="recall@10",
        heading="MRR@10",
        short="MRR@10, equal steps",
        noun="ranking",
        ranking="ranking",
        wins="ranks better",
        better="ranks better by {}",
        worse="ranks worse by {}",
    ),
    Measure(
        name="recall@10 at equal time",
        label="recall@10 after equal time",
        scale="difference",
        higher_is_better=True,
        margin=0.005,
        read=lambda s: None,  # needs the time that all arms had: judging reads it
        is_share=True,
        follows="recall@10",
        short="recall@10, equal time",
        noun="recall in equal time",
        ranking="recall in equal time",
        wins="finds more",
        better="finds {} more in equal time",
        worse="finds {} less in equal time",
    ),
)
"""Compared within pairs; with the crash rate, eight."""
MEASURES: Final[Mapping[str, Measure]] = {m.name: m for m in (CRASH_RATE, *PAIRED)}


def last_quarter(sample: Sample) -> float | None:
    """The loss where it has settled; None without a curve."""
    if not sample.loss:
        return None
    last = sample.loss[-1][0]
    tail = [y for x, y in sample.loss if x > 0.75 * last]
    return statistics.fmean(tail) if tail else None


def loss_distance(a: Sample, b: Sample) -> float | None:
    """How far two loss curves lie apart on average, at steps that both have; None without such."""
    if not a.loss or not b.loss:
        return None
    last = min(a.loss[-1][0], b.loss[-1][0])
    shared = [(x, y) for x, y in a.loss if b.loss[0][0] <= x <= last]
    gaps = [abs(y - _between(b.loss, x)) for x, y in shared]
    known = [gap for gap in gaps if math.isfinite(gap)]
    return statistics.fmean(known) if known else None


def _between(curve: Sequence[tuple[float, float]], x: float) -> float:
    """The curve at a place; behind its end, what it ended at."""
    for (s, a), (t, b) in itertools.pairwise(curve):
        if s <= x <= t:
            return a + (b - a) * (x - s) / (t - s) if t > s else b
    return curve[-1][1]


def at_time(sample: Sample, seconds: float, metric: str) -> float | None:
    """A metric at a moment, between the evaluations around it; None before the first."""
    points = [(e.seconds, e.metrics[metric]) for e in sample.evaluated if metric in e.metrics]
    if not points or seconds < points[0][0]:
        return None
    return _between(points, seconds)
