"""Do the verdicts of `ttf ab` hold? Simulated studies, judged as real ones are.

- A/A: studies of one configuration against itself, from recorded samples (tests/recorded/ab/*.json)
  or, without a file, from a generator: how often each measure alone raises a false alarm at 5%, and
  how often a study finds anything at all;
- planted: a crash probability of 0.05 against 0.4, 5% of throughput, 2 points of recall: the
  repeats that the power estimate asks for, and the fewest with which 80% of studies find it;
- same: how often arms that differ by exactly the margin are called the same;
- looks: false alarms of a sequential study, and how many repeats it saves where there is something;
- fixed: how often crashes that are still there are called gone.

    python benchmarks/bench_ab.py                     # everything, about five minutes
    python benchmarks/bench_ab.py aa --studies 1000
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.compare_arms import compare
from ttf.tools.ab.judge import JudgeSettings, judge
from ttf.tools.ab.sample import RepeatIncident, Sample
from ttf.tools.ab.stats import paired, power_rates, sequential

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.kit.ab import simulated
from tests.kit.ab.simulated import Blocks, Change

RECORDED = Path(__file__).parent.parent / "tests" / "ab" / "recorded"
ARMS = ("a", "b")
MEASURES = 8
ALPHA, POWER = 0.05, 0.8


def pools() -> dict[str, Blocks]:
    files = {path.stem: simulated.recorded(path) for path in sorted(RECORDED.glob("*.json*"))}
    return files or {"generator": simulated.generated(400, seed=1)}


def aa(studies: int) -> None:
    for name, pool in pools().items():
        for repeats, arms in ((10, ARMS), (20, ARMS), (20, ("a", "b", "c"))):
            alarms, any_found = false_alarms(pool, studies, repeats, arms)
            pairs = len(arms) * (len(arms) - 1) // 2
            told = ", ".join(f"{k} {v / pairs:.3g}" for k, v in alarms.items())
            print(f"A/A {name}, {len(arms)} arms x {repeats}, {studies} studies: "
                  f"alarms per pair: {told}; studies with any verdict: {any_found}")  # fmt: skip


def false_alarms(
    pool: Blocks, studies: int, repeats: int, arms: tuple[str, ...], seed: int = 0
) -> tuple[Counter[str], int]:
    """Raw p below 5% by measure, and studies that found a difference."""
    rng = np.random.default_rng(seed)
    alarms: Counter[str] = Counter()
    any_found = 0
    for _ in range(studies):
        analysis = judge(simulated.drawn(pool, arms, repeats, rng), arms)
        for c in analysis.comparisons:
            alarms[c.metric] += c.p_value is not None and c.p_value < ALPHA
        any_found += any((c.p_adjusted or 1) < ALPHA for c in analysis.comparisons)
    return alarms, any_found


def planted(studies: int) -> None:
    for name, pool in pools().items():
        for metric, change, control, estimate in (
            ("crash_rate", simulated.crashing(0.4), simulated.crashing(0.05), rates_estimate()),
            ("samples_per_s", simulated.faster(0.05), None,
             estimated(pool, "samples_per_s", math.log(1.05))),
            ("recall@10", simulated.better(0.02), None, estimated(pool, "recall@10", 0.02)),
        ):  # fmt: skip
            grid = sorted({max(2, round(estimate * share)) for share in np.arange(0.7, 1.31, 0.05)})
            powers = {n: found(pool, metric, change, control, n, studies) for n in grid}
            fewest = next((n for n in grid if powers[n] >= POWER), None)
            curve = " ".join(f"{n}:{power:.2f}" for n, power in powers.items())
            print(f"planted {name} {metric}: estimate {estimate}, fewest {fewest}; {curve}")


def rates_estimate() -> int:
    return power_rates.to_differ(0.05, 0.4, ALPHA / MEASURES) or 0


def estimated(pool: Blocks, metric: str, effect: float) -> int:
    """From the spread of all recorded pairs; repeats that were lost ask for more of them."""
    rng = np.random.default_rng(9)
    samples = simulated.drawn(pool, ARMS, 2_000, rng)
    a, b = ({s.block: s for s in samples if s.arm == arm} for arm in ARMS)
    compared = next(c for c in compare(*ARMS, a, b, {}) if c.measure.name == metric)
    assert compared.sigma is not None
    pairs = paired.to_differ(effect, compared.sigma, ALPHA / MEASURES) or 0
    return round(pairs * compared.blocks / compared.n)


def found(
    pool: Blocks, metric: str, change: Change, control: Change | None, n: int, studies: int
) -> float:
    """The share of studies that find the planted difference, and say so."""
    rng = np.random.default_rng(n)
    hits = 0
    for _ in range(studies):
        samples = simulated.drawn(pool, ARMS, n, rng, change)
        if control is not None:
            samples = [control(s, rng) if s.arm == "a" else s for s in samples]
        of = [c for c in judge(samples, ARMS).comparisons if c.metric == metric]
        hits += of[0].verdict in ARMS
    return hits / studies


def same(studies: int) -> None:
    """Throughput that differs by exactly its margin: at most 5% may be called the same."""
    for name, pool in pools().items():
        for n in (10, 20, 40):
            rng = np.random.default_rng(n)
            wrong = sum(
                verdict_of(
                    judge(simulated.drawn(pool, ARMS, n, rng, simulated.faster(0.02)), ARMS),
                    "samples_per_s",
                )
                == "same"
                for _ in range(studies)
            )
            print(f"same {name}: {n} repeats, {wrong} of {studies} at the margin called the same")


def verdict_of(analysis: Analysis, metric: str) -> str:
    return next(c.verdict for c in analysis.comparisons if c.metric == metric)


def looks(studies: int) -> None:
    def nothing(sample: Sample, rng: np.random.Generator) -> Sample:
        return sample

    plan = 40
    for name, pool in pools().items():
        for what, change, metric in (
            ("A/A", nothing, ""),
            ("crash rate 0.05, 0.6", simulated.crashing(0.6), "crash_rate"),
            ("8% faster", simulated.faster(0.08), "samples_per_s"),
        ):
            alarms, used, hits = 0, [], 0
            for seed in range(studies):
                rng = np.random.default_rng(seed)
                samples = simulated.drawn(pool, ARMS, plan, rng, change)
                if metric == "crash_rate":
                    control = simulated.crashing(0.05)
                    samples = [control(s, rng) if s.arm == "a" else s for s in samples]
                # The worst case for errors: any difference at any look ends the study.
                at, last = first_found(samples, plan, lambda a: bool(verdicts(a) & set(ARMS)))
                alarms += at is not None
                at, last = first_found(samples, plan, lambda a: a.settled)
                used.append(at or plan)
                hits += bool(metric) and verdict_of(last, metric) in ARMS
            print(f"looks {name} {what}: any difference at any look {alarms} of {studies}; repeats "
                  f"used {statistics.fmean(used):.1f} of {plan}, found when it ends {hits}")  # fmt: skip


def verdicts(analysis: Analysis) -> set[str]:
    return {c.verdict for c in analysis.comparisons}


def first_found(
    samples: list[Sample], plan: int, ends: Callable[[Analysis], bool]
) -> tuple[int | None, Analysis]:
    """The look at which a study ends, and what it says then."""
    points = sequential.when_to_look(plan)
    for number, look in enumerate(points):
        settings = JudgeSettings(planned=plan, looks=points[: number + 1])
        analysis = judge([s for s in samples if s.block < look], ARMS, settings)
        if ends(analysis):
            return look, analysis
    return None, analysis


def fixed(studies: int) -> None:
    """Studies where B is as flaky as A, of lengths at which B may well be clean by luck."""
    for hazard in (1 / 50, 1 / 500, 1 / 5_000):
        worst = (0, "")
        for expected, times, lost in itertools.product((1, 2, 4, 8), (1, 3, 10, 30), (True, False)):
            said = said_fixed(hazard, expected / hazard, times, lost, studies)
            what = f"{expected} crashes of A expected, B {times} times as long, "
            what += "a crash ends the repeat" if lost else "a crash is survived"
            worst = max(worst, (said["fixed"], f"{what}: {dict(said)}"))
        print(f"fixed, a crash in 1/{1 / hazard:.0f} steps: at most {worst[0]} of {studies} studies "
              f"call it gone ({worst[1]})")  # fmt: skip


def said_fixed(
    hazard: float, control_steps: float, times: float, lost: bool, studies: int
) -> Counter[str]:
    repeats = 20
    said: Counter[str] = Counter()
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        samples = [
            flaky(rng, arm, block, hazard, max(1, round(length / repeats)), lost)
            for block in range(repeats)
            for arm, length in zip(ARMS, (control_steps, control_steps * times), strict=True)
        ]
        said[next(f.verdict for f in judge(samples, ARMS).fixed if f.b == "b")] += 1
    return said


def flaky(
    rng: np.random.Generator, arm: str, block: int, hazard: float, steps: int, lost: bool
) -> Sample:
    at, crashes = 0, []
    while (at := at + int(rng.geometric(hazard))) <= steps:
        crashes.append(RepeatIncident(name="segfault", process="trainer", step=at))
        if lost:
            break
    ended = crashes[0].step if lost and crashes else steps
    return Sample(arm=arm, block=block, position=0, seed=block, incidents=tuple(crashes),
                  outcome=("lost" if lost else "survived") if crashes else "clean",
                  steps=ended)  # fmt: skip


def main() -> None:
    parts = {"aa": aa, "planted": planted, "same": same, "looks": looks, "fixed": fixed}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(parts)}; default: all")
    parser.add_argument("--studies", type=int, default=200)
    arguments = parser.parse_args()
    for name in arguments.part or parts:
        parts[name](arguments.studies)


if __name__ == "__main__":
    main()
