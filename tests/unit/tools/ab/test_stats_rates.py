"""Rates of crashes: intervals, the exact test and its power, against scipy and by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ttf.tools.ab.stats import boschloo, power_rates, rates


@pytest.fixture(scope="module")
def stats() -> Any:
    """Not at import, which takes a second in every process of the suite."""
    return pytest.importorskip("scipy.stats", reason="scipy is the oracle of these tests")


PLANTED = (0.05, 0.4)


@pytest.mark.parametrize(
    ("events", "n"),
    [(0, 1), (0, 20), (1, 20), (9, 20), (20, 20), (3, 500), (700, 1000), (1, 40_000)],
)
def test_intervals_of_a_rate_are_those_of_scipy(events: int, n: int, stats: Any) -> None:
    for confidence in (0.9, 0.95, 0.998):
        oracle = stats.binomtest(events, n)
        exact = oracle.proportion_ci(confidence, "exact")
        wilson = oracle.proportion_ci(confidence, "wilson")
        ours = rates.clopper_pearson(events, n, confidence)
        assert ours == pytest.approx((exact.low, exact.high), abs=1e-9)
        ours = rates.wilson(events, n, confidence)
        assert ours == pytest.approx((wilson.low, wilson.high), abs=1e-9)


def test_the_interval_of_a_difference_is_that_of_the_paper() -> None:
    """Newcombe 1998, table II, method 10."""
    for (a, of_a, b, of_b), wanted in {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (5, 56, 0, 29): (-0.0381, 0.1926),
        (10, 10, 0, 10): (0.6075, 1.0),
    }.items():
        low, high = rates.newcombe(b, of_b, a, of_a)
        assert (low, high) == pytest.approx(wanted, abs=1e-4)


def test_boschloos_test_is_that_of_scipy_also_for_arms_of_different_size(stats: Any) -> None:
    for of_a, of_b in ((8, 8), (5, 9), (20, 20), (17, 20)):
        for a, b in itertools.product(range(0, of_a + 1, 4), range(0, of_b + 1, 3)):
            if a * of_b == b * of_a:
                assert boschloo.p_value(a, of_a, b, of_b) == 1
                continue
            oracle = stats.boschloo_exact([[a, b], [of_a - a, of_b - b]]).pvalue
            assert boschloo.p_value(a, of_a, b, of_b) == pytest.approx(oracle, abs=1e-6)


def test_boschloos_test_never_says_less_than_fishers(stats: Any) -> None:
    for a, b in itertools.product(range(16), range(16)):
        fisher = stats.fisher_exact([[a, b], [15 - a, 15 - b]]).pvalue
        assert boschloo.p_value(a, 15, b, 15) <= fisher + 1e-9


@pytest.mark.parametrize("n", [5, 12, 30])
def test_equal_arms_are_told_apart_less_often_than_asked_for_at_any_rate(n: int) -> None:
    for alpha in (0.05, 0.05 / 8):
        errors = [boschloo.power(p, p, n, alpha) for p in np.linspace(0, 1, 101)]
        assert max(errors) < alpha


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 8])
def test_power_is_the_chance_of_the_tables_with_a_small_p(alpha: float, stats: Any) -> None:
    n, (p, q) = 11, PLANTED
    total = sum(
        stats.binom.pmf(a, n, p) * stats.binom.pmf(b, n, q)
        for a, b in itertools.product(range(n + 1), range(n + 1))
        if boschloo.p_value(a, n, b, n) < alpha
    )
    assert boschloo.power(p, q, n, alpha) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(("alpha", "with_fisher"), [(0.05, 24), (0.05 / 8, 37)])
def test_the_fewest_repeats_are_the_fewest_and_fewer_than_fishers(
    alpha: float, with_fisher: int
) -> None:
    n = power_rates.to_differ(*PLANTED, alpha)
    assert n is not None and n < with_fisher
    assert boschloo.power(*PLANTED, n, alpha) >= 0.8
    assert all(boschloo.power(*PLANTED, fewer, alpha) < 0.8 for fewer in range(n - 4, n))


def test_the_formula_for_many_repeats_continues_the_enumeration() -> None:
    for p, q in ((0.1, 0.35), (0.02, 0.2), (0.4, 0.65)):
        exact = power_rates.to_differ(p, q, 0.05)
        assert exact is not None and exact < 70
        assert power_rates._by_formula(p, q, 0.05, 0.8) == pytest.approx(exact, rel=0.1)


def test_rates_that_look_alike_ask_for_no_number_that_means_nothing() -> None:
    assert power_rates.to_differ(0.2, 0.2) is None
    assert power_rates.to_differ(0.5, 0.5001) is None
    assert power_rates.to_be_same(0.1, 0.2, 0.05) is None


def test_two_arms_without_any_crash_are_the_same_after_52_repeats() -> None:
    assert power_rates.to_be_same(0.0, 0.0, 0.05) == 52
    low, high = rates.newcombe(0, 52, 0, 52, 0.9)
    assert low >= -0.05 and high <= 0.05
    assert rates.newcombe(0, 51, 0, 51, 0.9)[1] > 0.05


def test_the_power_of_same_is_the_chance_of_the_tables_within_the_margin(stats: Any) -> None:
    n, margin = 12, 0.3
    total = sum(
        stats.binom.pmf(a, n, 0.1) * stats.binom.pmf(b, n, 0.15)
        for a, b in itertools.product(range(n + 1), range(n + 1))
        if max(map(abs, rates.newcombe(a, n, b, n, 0.9))) <= margin
    )
    assert power_rates.same(0.1, 0.15, n, margin) == pytest.approx(total, abs=1e-9)
