"""The measures of a comparison: how each is read from a sample, which direction is better, and
which difference is too small to matter."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ttf.tools.ab.sample import Sample

# rate: a share of repeats; ratio: compared as b / a - 1; difference: as b - a
Scale = Literal["rate", "ratio", "difference"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How a measure is read, and all its words in outputs."""

    name: str
    label: str
    scale: Scale
    higher_is_better: bool
    margin: float  # arms closer than this are the same; in the unit of the effect
    unit: str = ""
    read: Callable[[Sample], float | None]
    digits: int = 3  # decimals of a difference
    can_be_negative: bool = False
    is_share: bool = False  # differences are shown in percentage points
    follows: str = ""  # Left out if the same arm is also better by this better known measure.
    is_headline: bool = False  # in every verdict; others only if arms differ
    heading: str = ""  # of its column in tables of arms; empty: no column
    short: str  # at most 22 letters
    noun: str  # in sentences
    ranking: str  # what a ranking by it ranks, best first
    wins: str  # what the better arm does, in a table: "is faster"
    # The same with the difference, in a sentence: "is {} faster". Not for crash rates.
    better: str = ""
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
SECONDS: Final = "seconds"
# By the direction that is better.
METRICS: Final = {"lower": "metric", "higher": "metric (higher is better)"}
# Only samples of commands have these.
OF_COMMANDS: Final[tuple[Measure, ...]] = (
    Measure(
        name=SECONDS,
        label="time",
        scale="ratio",
        higher_is_better=False,
        margin=0.02,
        unit="s",
        read=lambda s: s.metrics.get(SECONDS),
        is_headline=True,
        heading="seconds",
        short="time",
        noun="time",
        ranking="speed",
        wins="is faster",
        better="takes {} less time",
        worse="takes {} more time",
    ),
    *(
        Measure(
            name=name,
            label="metric",
            scale="difference",
            higher_is_better=name != METRICS["lower"],
            margin=0.0,
            read=lambda s, name=name: s.metrics.get(name),  # type: ignore[misc]
            digits=4,
            is_headline=True,
            heading="metric",
            short="metric",
            noun="the metric",
            ranking="best metric",
            wins=wins,
            better=f"has a metric {{}} {wins.removeprefix('is ')}",
            worse=f"has a metric {{}} {worse}",
        )
        for name, wins, worse in (
            (METRICS["lower"], "is lower", "higher"),
            (METRICS["higher"], "is higher", "lower"),
        )
    ),
)
MEASURES: Final[Mapping[str, Measure]] = {m.name: m for m in (CRASH_RATE, *PAIRED, *OF_COMMANDS)}


def last_quarter(sample: Sample) -> float | None:
    """The mean of the settled loss; None without a curve."""
    if not sample.loss:
        return None
    last = sample.loss[-1][0]
    tail = [y for x, y in sample.loss if x > 0.75 * last]
    return statistics.fmean(tail) if tail else None


def loss_distance(a: Sample, b: Sample) -> float | None:
    """The mean distance of two loss curves, at steps that both have; None without any."""
    if not a.loss or not b.loss:
        return None
    last = min(a.loss[-1][0], b.loss[-1][0])
    shared = [(x, y) for x, y in a.loss if b.loss[0][0] <= x <= last]
    gaps = [abs(y - _between(b.loss, x)) for x, y in shared]
    known = [gap for gap in gaps if math.isfinite(gap)]
    return statistics.fmean(known) if known else None


def _between(curve: Sequence[tuple[float, float]], x: float) -> float:
    """Linear between points; after the end, the last value."""
    for (s, a), (t, b) in itertools.pairwise(curve):
        if s <= x <= t:
            return a + (b - a) * (x - s) / (t - s) if t > s else b
    return curve[-1][1]


def at_time(sample: Sample, seconds: float, metric: str) -> float | None:
    """A metric at a time, between the evaluations around it; None before the first."""
    points = [(e.seconds, e.metrics[metric]) for e in sample.evaluated if metric in e.metrics]
    if not points or seconds < points[0][0]:
        return None
    return _between(points, seconds)
