"""The sign-flip test, its interval and its power."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.kit.widely import wide

from ttf.tools.ab.stats import paired
from ttf.tools.ab.stats.paired import sign_flip


def _by_hand(differences: list[float], at: float = 0.0) -> float:
    moved = [d - at for d in differences]
    seen = abs(sum(moved))
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, moved, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(moved))
    ]
    return sum(s >= seen * (1 - 1e-12) - 1e-15 for s in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 9, 11])
def test_the_test_is_an_enumeration_of_all_signs(n: int) -> None:
    rng = np.random.default_rng(n)
    for shift in (0.0, 0.5, 1.5):
        differences = list(rng.normal(shift, 1, n))
        for at in (0.0, 0.3, -1.0, 2.0):
            assert sign_flip(differences).p_value(at) == pytest.approx(_by_hand(differences, at))


def test_the_test_is_that_of_scipy() -> None:
    stats: Any = pytest.importorskip("scipy.stats", reason="scipy is the oracle of this test")
    rng = np.random.default_rng(0)
    for n in (6, 10, 13):
        differences = rng.normal(0.5, 1, n)
        oracle = stats.permutation_test(
            (differences, np.zeros(n)),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        assert sign_flip(list(differences)).p_value() == pytest.approx(oracle.pvalue)


@pytest.mark.parametrize("n", [6, 8, 14, 15, 30])
def test_p_is_below_alpha_exactly_when_the_interval_leaves_the_value(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(60):
        flip = sign_flip(list(rng.normal(rng.normal(0, 0.8), 1, n)))
        for alpha in (0.1, 0.05, 0.05 / 8):
            low, high = flip.interval(alpha)
            inside = (low is None or low <= 0) and (high is None or high >= 0)
            assert inside == (flip.p_value() >= alpha)
            for bound, out in ((low, -1e-9), (high, 1e-9)):
                if bound is not None:
                    assert flip.p_value(bound) >= alpha > flip.p_value(bound + out)


def test_ties_and_zeros_are_counted_as_ties() -> None:
    tenths = [0.1, -0.1, 0.2, 0.1, 0.0, 0.3, -0.2, 0.1]  # sums of these are not exact in binary
    wholes = [round(10 * d) for d in tenths]
    assert sign_flip(tenths).p_value() == sign_flip([float(d) for d in wholes]).p_value()
    assert sign_flip(tenths).p_value() == _by_hand([float(d) for d in wholes])


@pytest.mark.parametrize("n", [1, 6, 14, 15, 40])
def test_identical_arms_have_p_1_and_an_interval_of_nothing(n: int) -> None:
    flip = sign_flip([0.0] * n)
    assert flip.p_value() == 1.0
    assert flip.interval(0.05) == ((0.0, 0.0) if n >= 6 else (None, None))


def test_a_shift_without_spread_is_as_clear_as_the_number_of_pairs_allows() -> None:
    flip = sign_flip([0.25] * 7)
    assert flip.p_value() == 2**-6 and flip.interval(0.05) == (0.25, 0.25)


@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.05 / 8, 0.05 / 24])
def test_below_the_fewest_pairs_nothing_can_be_found(alpha: float) -> None:
    fewest = paired.fewest_pairs(alpha)
    assert sign_flip([1.0] * fewest).p_value() < alpha <= sign_flip([1.0] * (fewest - 1)).p_value()
    assert sign_flip([1.0] * (fewest - 1)).interval(alpha) == (None, None)


def test_the_drawn_signs_agree_with_all_of_them() -> None:
    """Just above the limit of enumeration: 2^14 choices by hand against 19,999 drawn ones."""
    rng = np.random.default_rng(4)
    differences = rng.normal(0.4, 1, 15)
    signs = 1 - 2 * (np.arange(2**14)[:, None] >> np.arange(15) & 1)
    exact = float(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12))
    assert sign_flip(list(differences)).p_value() == pytest.approx(exact, abs=0.005)
    assert sign_flip(list(differences)).p_value() == sign_flip(list(differences)).p_value()


def test_a_clear_difference_has_the_smallest_p_that_was_drawn_for() -> None:
    assert sign_flip([1.0 + i / 100 for i in range(40)]).p_value() == 1 / (paired.DRAWS + 1)


def test_the_interval_is_near_students_for_normal_values() -> None:
    rng = np.random.default_rng(5)
    differences = rng.normal(1, 2, 30)
    half = 2.0452 * differences.std(ddof=1) / math.sqrt(30)
    low, high = sign_flip(list(differences)).interval(0.05)
    assert low == pytest.approx(differences.mean() - half, abs=0.08)
    assert high == pytest.approx(differences.mean() + half, abs=0.08)


@pytest.mark.parametrize(
    ("alpha", "sigma"),
    [
        (0.05, 0.6),
        pytest.param(0.05, 0.9, marks=wide),
        (0.05, 1.2),
        pytest.param(0.05 / 8, 0.6, marks=wide),
        (0.05 / 8, 0.9),
        pytest.param(0.05 / 8, 1.2, marks=wide),
    ],
)
def test_the_estimate_is_within_a_fifth_of_the_fewest_pairs(sigma: float, alpha: float) -> None:
    estimate = paired.to_differ(1.0, sigma, alpha)
    assert estimate is not None
    low, high = math.floor(estimate / 1.2), math.ceil(estimate * 1.2)
    assert _power(1.0, sigma, low - 1, alpha) < 0.8 < _power(1.0, sigma, high, alpha)


def _power(effect: float, sigma: float, n: int, alpha: float, studies: int = 300) -> float:
    rng = np.random.default_rng(n)
    found = [
        sign_flip(list(rng.normal(effect, sigma, n))).p_value() < alpha for _ in range(studies)
    ]
    return sum(found) / studies


@pytest.mark.parametrize("effect", [0.0, 0.3, 0.5])
def test_same_is_shown_as_often_as_the_estimate_says(effect: float) -> None:
    estimate = paired.to_be_same(effect, 1.0, 1.0)
    assert estimate is not None
    rng = np.random.default_rng(6)
    shown = 0
    for _ in range(300):
        low, high = sign_flip(list(rng.normal(effect, 1, estimate))).interval(0.1)
        shown += low is not None and high is not None and low >= -1 and high <= 1
    assert 0.75 <= shown / 300 <= 0.92


def test_what_cannot_be_shown_has_no_number() -> None:
    assert paired.to_differ(0.0, 1.0) is None and paired.to_differ(1e-6, 1.0) is None
    assert paired.to_be_same(1.0, 1.0, 1.0) is None and paired.to_be_same(0, 1, 1e-6) is None
    assert paired.to_be_same(0.0, 0.0, 1.0) == 5
