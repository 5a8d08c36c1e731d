"""Survival, how long clean is long enough, looks on the way, and many tests at once."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from ttf.tools.ab.stats import fixed, sequential
from ttf.tools.ab.stats.correction import holm
from ttf.tools.ab.stats.survival import kaplan_meier


def test_the_curve_of_freireich_is_that_of_the_textbooks() -> None:
    """6-mercaptopurine, 21 patients (Freireich 1963): the first example of most books."""
    crashed = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    clean = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    curve = kaplan_meier([(t, True) for t in crashed] + [(t, False) for t in clean])
    assert [(t, round(share, 4)) for t, share, _, _ in curve] == [
        (0, 1.0), (6, 0.8571), (7, 0.8067), (10, 0.7529), (13, 0.6902), (16, 0.6275),
        (22, 0.5378), (23, 0.4482),
    ]  # fmt: skip
    assert [round(bound, 3) for bound in curve[-1][2:]] == [0.188, 0.68]


@pytest.mark.parametrize("seed", range(5))
def test_curve_and_bounds_are_those_of_scipy(seed: int) -> None:
    stats: Any = pytest.importorskip("scipy.stats", reason="scipy is the oracle of this test")
    rng = np.random.default_rng(seed)
    ends = [(int(t), bool(c)) for t, c in zip(rng.integers(1, 30, 40), rng.random(40) < 0.5,
                                              strict=True)]  # fmt: skip
    data = stats.CensoredData.right_censored([t for t, _ in ends], [not c for _, c in ends])
    survival = stats.ecdf(data).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no bounds at a share of 0
        bounds = survival.confidence_interval(0.95, method="log-log")
    for step, share, low, high in kaplan_meier(ends)[1:]:
        assert survival.evaluate(step) == pytest.approx(share)
        if 0 < share < 1:
            assert bounds.low.evaluate(step) == pytest.approx(low)
            assert bounds.high.evaluate(step) == pytest.approx(high)


def test_a_curve_without_crashes_stays_up_and_one_without_survivors_ends_at_0() -> None:
    assert kaplan_meier([(5, False), (9, False)]) == ((0, 1, 1, 1),)
    curve = kaplan_meier([(5, True), (9, True)])
    assert curve[-1][:3] == (9, 0, 0) and curve[-1][3] == curve[1][3] < 1
    assert kaplan_meier([(5, True)])[-1] == (5, 0, 0, 1)


def test_a_clean_length_is_measured_by_what_the_control_showed() -> None:
    """The issue's figures; the well-known 3 times is only the limit."""
    assert [round(fixed.times_the_mean(r), 1) for r in (1, 2, 3, 5, 10)] == [19, 6.9, 5.1, 4.1, 3.5]
    assert fixed.times_the_mean(100_000) == pytest.approx(-math.log(0.05), rel=1e-3)
    for crashes, alpha in itertools.product((1, 3, 10), (0.05, 0.01)):
        needed = fixed.needed_steps(crashes, 10_000, alpha)
        assert fixed.p_value(crashes, 10_000, needed) <= alpha
        assert fixed.p_value(crashes, 10_000, needed - 1) > alpha


@pytest.mark.parametrize("hazard", [1 / 50, 1 / 500, 1 / 20_000])
@pytest.mark.parametrize("crashes", [1, 2, 3, 5, 10])
def test_crashes_that_are_still_there_are_called_gone_in_one_study_of_twenty(
    crashes: int, hazard: float
) -> None:
    """The sharpest case there is: a control that runs until it has shown so many, and an arm that
    runs on, if it can, until it was clean for exactly as long as asked."""
    rng = np.random.default_rng(crashes)
    studies = 20_000
    control = rng.geometric(hazard, (studies, crashes)).sum(axis=1)
    until_crash = rng.geometric(hazard, studies)
    needed = [fixed.needed_steps(crashes, int(steps)) for steps in control]
    wrong = float(np.mean(until_crash > needed))
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert wrong > 0.03  # not for want of saying anything


def test_holm_is_bonferroni_for_the_smallest_and_never_falls() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = list(rng.random(9) ** 3)
        adjusted = holm(p_values)
        assert min(adjusted) == pytest.approx(min(1, 9 * min(p_values)))
        by_p = [adjusted[i] for i in np.argsort(p_values)]
        assert by_p == sorted(by_p) and max(by_p) <= 1
        for alpha in (0.05, 0.3):
            assert {i for i in range(9) if adjusted[i] < alpha} == _step_down(p_values, alpha)


def _step_down(p_values: list[float], alpha: float) -> set[int]:
    rejected: set[int] = set()
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[i] >= alpha / (len(p_values) - rank):
            break
        rejected.add(i)
    return rejected


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]) == []


@pytest.mark.parametrize("planned", [2, 3, 5, 10, 20, 47])
def test_looks_spend_all_of_the_error_by_the_end_and_no_more(planned: int) -> None:
    looks = sequential.when_to_look(planned)
    assert looks[-1] == planned and list(looks) == sorted(set(looks))
    levels = sequential.levels(looks, planned)
    assert sum(levels) == pytest.approx(0.05) and min(levels) > 0
    assert list(levels) == sorted(levels)
    assert sum(sequential.levels((*looks, 2 * planned), planned)) == pytest.approx(0.05)


def test_a_look_after_each_block_spends_no_more() -> None:
    assert sum(sequential.levels(range(1, 21), 20)) == pytest.approx(0.05)


def test_looks_at_normal_means_err_less_often_than_asked_for() -> None:
    """By the union bound less than the 5%, as looks share their data."""
    rng = np.random.default_rng(0)
    looks = sequential.when_to_look(20)
    means = np.cumsum(rng.normal(size=(20_000, 20)), axis=1)[:, [k - 1 for k in looks]]
    z = np.abs(means) / np.sqrt(looks)
    p_values = np.vectorize(math.erfc)(z / math.sqrt(2))
    wrong = float(np.mean((p_values < sequential.levels(looks, 20)).any(axis=1)))
    assert 0.03 < wrong <= 0.05
