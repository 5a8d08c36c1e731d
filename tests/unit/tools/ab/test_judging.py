"""Samples in, verdicts out: what is found, what is the same, what is open and what that takes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from tests.conftest import ROOT
from tests.kit import simulated_ab as simulated

from ttf.tools.ab.analysis import Analysis, Comparison
from ttf.tools.ab.judge import JudgeSettings, judge
from ttf.tools.ab.measures import PAIRED
from ttf.tools.ab.sample import EvalPoint, RepeatIncident, RepeatOutcome, Sample

AB = ("a", "b")


def sample(arm: str, block: int, speed: float | None = 900.0, **other: Any) -> Sample:
    plain = Sample(arm=arm, block=block, position=0, seed=block, outcome="clean", steps=1_000)
    return replace(plain, samples_per_s=speed, **other)


def crash(steps: int = 400, incidents: int = 1, outcome: RepeatOutcome = "lost") -> dict[str, Any]:
    one = RepeatIncident(name="segfault", process="trainer", step=steps)
    return {"outcome": outcome, "incidents": (one,) * incidents, "steps": steps}


def study(
    repeats: int, ratio: Callable[[int], float], b: Callable[[int], dict[str, Any]] | None = None
) -> list[Sample]:
    """Speeds of A drift; B's are so many times as high."""
    speeds = [900 * math.exp(0.05 * math.sin(k)) for k in range(repeats)]
    return [
        made
        for k, speed in enumerate(speeds)
        for made in (
            sample("a", k, speed),
            sample("b", k, speed * ratio(k), **(b(k) if b else {})),
        )
    ]


def of(analysis: Analysis, metric: str, pair: tuple[str, str] = AB) -> Comparison:
    return next(c for c in analysis.comparisons if c.metric == metric and (c.a, c.b) == pair)


def test_a_difference_beyond_the_noise_of_pairs_is_found_and_which_way_is_better() -> None:
    analysis = judge(study(12, lambda k: 0.95 + 0.005 * (k % 3)), AB)
    speed = of(analysis, "samples_per_s")
    assert (speed.verdict, speed.n, speed.needs) == ("a", 12, None)
    assert speed.effect == pytest.approx(-0.045, abs=0.001)
    low, high = speed.ci
    assert low is not None and high is not None and -0.05 < low < -0.045 < high < -0.04
    assert speed.p_value == 2 / 2**12
    assert (
        of(judge(study(12, lambda k: 1.05 + 0.005 * (k % 3)), AB), "samples_per_s").verdict == "b"
    )


def test_less_is_better_where_it_is() -> None:
    samples = [
        replace(s, peak_anon_mb=(800.0 if s.arm == "a" else 700.0) + s.block % 4)
        for s in study(12, lambda k: 1.0)
    ]
    assert of(judge(samples, AB), "peak_anon_mb").verdict == "b"


def test_same_is_shown_and_not_the_absence_of_a_difference() -> None:
    close = of(judge(study(12, lambda k: 1 + 0.01 * (-1) ** k), AB), "samples_per_s")
    wild = of(judge(study(12, lambda k: 1 + 0.10 * (-1) ** k), AB), "samples_per_s")
    assert (close.verdict, wild.verdict) == ("same", "inconclusive")
    low, high = close.ci_same
    assert low is not None and high is not None and low >= -0.02 and high <= 0.02
    assert close.needs is None and wild.needs is not None


def test_a_difference_smaller_than_what_matters_is_the_same_with_a_note() -> None:
    speed = of(judge(study(12, lambda k: 1.005 + 0.001 * (k % 3)), AB), "samples_per_s")
    assert speed.p_adjusted is not None and speed.p_adjusted < 0.05
    assert speed.verdict == "same" and "too small to matter" in speed.note


def test_a_margin_may_be_set_by_measure() -> None:
    samples = study(12, lambda k: 1.005 + 0.001 * (k % 3))
    speed = of(judge(samples, AB, JudgeSettings(margins={"samples_per_s": 0.001})), "samples_per_s")
    assert (speed.verdict, speed.margin) == ("b", 0.001)


def test_identical_arms_are_the_same_and_equal_to_the_last_bit() -> None:
    samples = [replace(s, weights_sha256=f"{s.block}") for s in study(8, lambda k: 1.0)]
    samples[3] = replace(samples[3], weights_sha256="other")
    samples[4] = replace(samples[4], weights_sha256="")
    analysis = judge(samples, AB)
    speed = of(analysis, "samples_per_s")
    assert (speed.p_value, speed.ci, speed.verdict) == (1.0, (0.0, 0.0), "same")
    assert (analysis.bitwise[0].pairs, analysis.bitwise[0].equal) == (7, 6)


@pytest.mark.parametrize("repeats", [1, 2, 4])
def test_with_too_few_repeats_nothing_is_said_but_how_many_it_takes(repeats: int) -> None:
    speed = of(judge(study(repeats, lambda k: 1.2 + 0.01 * k), AB), "samples_per_s")
    assert speed.verdict == "inconclusive" and speed.ci == (None, None)
    assert speed.needs is not None and speed.needs.total >= 7
    assert speed.needs.more == speed.needs.total - repeats
    assert (speed.needs.power is None) == (repeats == 1)


def test_what_is_needed_is_enough() -> None:
    """Of studies as long as an open one asked for, four in five have a verdict."""
    rng = np.random.default_rng(1)

    def drawn(repeats: int) -> Comparison:
        ratios = np.exp(rng.normal(0.03, 0.04, repeats))
        return of(judge(study(repeats, lambda k: float(ratios[k])), AB), "samples_per_s")

    totals = [c.needs.total for c in (drawn(10) for _ in range(80)) if c.needs]
    typical = int(np.median(totals))
    with_verdict = sum(drawn(typical).verdict != "inconclusive" for _ in range(80))
    assert len(totals) > 40 and with_verdict / 80 >= 0.75


def test_crashes_are_compared_whole_and_a_lost_repeat_has_no_speed() -> None:
    samples = study(20, lambda k: 1.0, lambda k: crash() if k < 11 else {})
    analysis = judge(samples, AB)
    rate, speed = of(analysis, "crash_rate"), of(analysis, "samples_per_s")
    assert (rate.value_a, rate.value_b, rate.verdict) == (0, 0.55, "a")
    assert rate.n == 20 and speed.n == 9
    assert speed.note.startswith("11 of 20 pairs") and "a repeat was lost" in speed.note
    b = analysis.arms[1]
    assert (b.runs, b.crashes, b.lost, b.survived) == (20, 11, 11, 0)
    assert b.classes == {"segfault": 11} and b.steps_to_crash == (11 * 400 + 9 * 1_000) / 11
    assert [(step, round(share, 9)) for step, share, *_ in b.survival] == [(0, 1), (400, 0.45)]
    assert b.crash_rate_ci[0] == pytest.approx(0.3153, abs=1e-4)


def test_void_and_invalid_repeats_are_left_out_and_pairs_need_both() -> None:
    samples = study(10, lambda k: 1.0)
    samples[1] = replace(samples[1], outcome="void", samples_per_s=1.0)
    samples[3] = replace(samples[3], outcome="invalid")
    samples += [replace(samples[5], samples_per_s=None)]  # block 2 of b, again
    analysis = judge(samples, AB)
    assert of(analysis, "samples_per_s").n == 7 and analysis.blocks == 8
    assert (analysis.arms[1].runs, analysis.arms[1].left_out) == (8, 2)


def test_equal_time_is_the_time_that_all_had() -> None:
    def evaluated(speed: float) -> tuple[EvalPoint, ...]:
        return tuple(
            EvalPoint(step=s, seconds=s / speed, metrics={"recall@10": s / 1_000})
            for s in (100, 200, 300)
        )

    samples = [
        replace(s, evaluated=evaluated(1.0 if s.arm == "a" else 2.0 + 0.01 * s.block))
        for s in study(8, lambda k: 1.0)
    ]
    recall = of(judge(samples, AB), "recall@10 at equal time")
    assert recall.note.startswith("after 145 s")  # b's fastest: 300 / 2.07
    assert recall.value_a == pytest.approx(0.145, abs=0.001)
    assert recall.value_b == pytest.approx(0.295, abs=0.01) and recall.verdict == "b"


def test_a_loss_that_is_no_number_is_left_out_and_told() -> None:
    samples = [
        replace(s, loss=((900.0, math.nan if s.block < 3 and s.arm == "b" else 1.0),))
        for s in study(10, lambda k: 1.0)
    ]
    analysis = judge(samples, AB)
    assert of(analysis, "loss").n == 7 and analysis.arms[1].loss == 1.0
    note = of(analysis, "loss").note
    assert note.startswith("3 of 10 pairs") and "is not finite" in note


def test_what_nobody_measured_is_not_compared() -> None:
    assert {c.metric for c in judge(study(3, lambda k: 1.0), AB).comparisons} == {
        "crash_rate",
        "samples_per_s",
    }


def test_correction_covers_all_pairs_of_arms_and_all_measures() -> None:
    rng = np.random.default_rng(0)
    pool = simulated.generated(40, seed=3)
    analysis = judge(simulated.drawn(pool, ("a", "b", "c"), 12, rng), ("a", "b", "c"))
    raw = [c.p_value for c in analysis.comparisons]
    assert len(raw) == 3 * (1 + len(PAIRED)) and None not in raw
    smallest = min(analysis.comparisons, key=lambda c: c.p_value or 0)
    assert smallest.p_adjusted == pytest.approx(min(1, len(raw) * (smallest.p_value or 0)))


def test_a_control_that_did_not_crash_says_nothing_about_a_cure() -> None:
    fixed = judge(study(50, lambda k: 1.0), AB).fixed
    assert {f.verdict for f in fixed} == {"not reproduced"}
    assert {(f.a, f.b) for f in fixed} == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize(("repeats", "verdict", "more"), [(17, "not yet", 2), (19, "fixed", None)])
def test_crashes_are_gone_after_a_clean_length_as_long_as_the_control_asks_for(
    repeats: int, verdict: str, more: int | None
) -> None:
    """One crash in 1,000 steps of the control: 19 times as long."""
    samples = [sample("a", 0, **crash(1_000))] + [sample("b", k) for k in range(repeats)]
    fixed = next(f for f in judge(samples, AB).fixed if f.b == "b")
    assert (fixed.verdict, fixed.more_runs, fixed.needed_steps) == (verdict, more, 19_000)
    back = next(f for f in judge(samples, AB).fixed if f.b == "a")
    assert back.verdict == "not reproduced"


def test_every_crash_of_a_surviving_control_counts() -> None:
    control = crash(5_000, incidents=5, outcome="survived")
    fixed = judge([sample("a", 0, **control), *(sample("b", k) for k in range(5))], AB).fixed[0]
    assert (fixed.control_crashes, fixed.control_steps, fixed.verdict) == (5, 5_000, "fixed")
    once = [sample("a", 0, **control), sample("b", 0, **crash())]
    assert judge(once, AB).fixed[0].verdict == "still crashes"


def test_with_more_arms_a_cure_takes_more_as_there_are_more_chances_to_be_wrong() -> None:
    samples = [sample("a", 0, **crash(1_000)), sample("b", 0), sample("c", 0)]
    fixed = next(f for f in judge(samples, ("a", "b", "c")).fixed if (f.a, f.b) == ("a", "b"))
    assert fixed.needed_steps == pytest.approx(59_000, abs=1)


def test_a_look_has_its_own_level_and_the_last_makes_up_for_it() -> None:
    samples = study(20, lambda k: 1.05 + 0.005 * (k % 3))
    early = judge(samples[:16], AB, JudgeSettings(planned=20, looks=(8,)))
    assert early.confidence == pytest.approx(0.9981, abs=1e-4) and early.alpha == 0.05
    assert of(early, "samples_per_s").verdict == "inconclusive"  # 8 pairs have p >= 1/128
    assert not early.settled
    late = judge(samples, AB, JudgeSettings(planned=20, looks=(8, 12, 16, 20)))
    assert sum(look.alpha for look in late.looks) == pytest.approx(0.05)
    assert of(late, "samples_per_s").verdict == "b"


def test_a_study_is_settled_when_no_more_verdicts_are_to_be_expected() -> None:
    samples = study(24, lambda k: 1.05 + 0.005 * (k % 3))
    found = judge(samples, AB, JudgeSettings(planned=40, looks=(16, 24)))
    assert of(found, "samples_per_s").verdict == "b" and found.settled
    open_still = [
        replace(s, peak_anon_mb=800 * (1 + 0.043 * (-1) ** s.block * (s.arm == "b")))
        for s in samples
    ]
    assert not judge(open_still, AB, JudgeSettings(planned=40, looks=(16, 24))).settled
    assert not judge(samples, AB).settled  # no looks were asked for


@pytest.mark.parametrize(("planned", "looks"), [(5_000, (1,)), (10, (10, 14)), (10, (14,))])
def test_a_look_with_next_to_nothing_to_spend_finds_nothing_and_is_no_error(
    planned: int, looks: tuple[int, ...]
) -> None:
    samples = study(14, lambda k: 1.05, lambda k: {}) + [sample("c", k) for k in range(14)]
    analysis = judge(samples, ("a", "b", "c"), JudgeSettings(planned=planned, looks=looks))
    spent = looks == (14,)  # the first look has all of it, however late it is
    assert (of(analysis, "samples_per_s").verdict == "b") == spent
    json.dumps(asdict(analysis), allow_nan=False)


def test_nothing_is_settled_before_there_is_something_to_compare() -> None:
    assert not judge([], AB, JudgeSettings(planned=10, looks=(4,))).settled


def _pools() -> list[tuple[str, simulated.Blocks]]:
    files = sorted((ROOT / "tests/recorded/ab").glob("*.json*"))
    return [("generated", simulated.generated(150, seed=1, crash=0.2))] + [
        (path.stem, simulated.recorded(path)) for path in files
    ]


@pytest.mark.parametrize("pool", [p for _, p in _pools()], ids=[name for name, _ in _pools()])
def test_one_configuration_against_itself_raises_no_more_alarms_than_asked_for(
    pool: simulated.Blocks,
) -> None:
    """100 studies; 200 and more are in benchmarks/bench_ab.py."""
    rng = np.random.default_rng(2)
    alarms: dict[str, int] = {}
    any_found = 0
    for _ in range(100):
        analysis = judge(simulated.drawn(pool, AB, 12, rng), AB)
        for c in analysis.comparisons:
            alarms[c.metric] = alarms.get(c.metric, 0) + ((c.p_value or 1) < 0.05)
        any_found += any(c.verdict in AB for c in analysis.comparisons)
    assert max(alarms.values()) <= 11 and any_found <= 9, (alarms, any_found)


def test_a_large_study_is_judged_within_a_second() -> None:
    pool = simulated.generated(60, seed=4)
    samples = simulated.drawn(pool, ("a", "b", "c"), 50, np.random.default_rng(0))
    began = time.process_time()
    analysis = judge(samples, ("a", "b", "c"))
    assert time.process_time() - began < 5  # 0.2 s; the machine may be busy
    assert len(json.dumps(asdict(analysis), allow_nan=False)) > 1_000


def test_nothing_to_judge_is_no_error() -> None:
    empty = judge([], AB)
    assert empty.comparisons == () and empty.blocks == 0
    assert [a.crash_rate for a in empty.arms] == [None, None]
    assert empty.verdict == "No value was measured that could be compared."
    assert json.loads(json.dumps(asdict(empty), allow_nan=False))["arms"][0]["runs"] == 0


def test_an_arm_that_always_dies_is_compared_by_that() -> None:
    samples = study(12, lambda k: 1.0, lambda k: crash())
    analysis = judge(samples, AB)
    assert of(analysis, "crash_rate").verdict == "a"
    speed = of(analysis, "samples_per_s")
    assert (speed.n, speed.verdict, speed.p_value, speed.needs) == (0, "inconclusive", None, None)


def test_loss_curves_of_pairs_are_told_by_their_distance() -> None:
    from dataclasses import replace

    from ttf.tools.ab.measures import loss_distance
    from ttf.tools.ab.sample import Sample

    one = Sample(arm="a", block=0, position=0, seed=1, outcome="clean",
                 loss=((1, 4.0), (3, 2.0), (5, 1.0)))  # fmt: skip
    other = replace(one, arm="b", loss=((1, 4.5), (5, 0.5)))
    assert loss_distance(one, one) == 0
    assert loss_distance(one, other) == (0.5 + 0.5 + 0.5) / 3
    assert loss_distance(one, replace(other, loss=())) is None
    analysis = judge([one, other], ["a", "b"])
    assert analysis.bitwise[0].loss_distance == 0.5
