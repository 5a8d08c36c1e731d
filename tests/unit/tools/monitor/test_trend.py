"""A slope is named only where there is one: never from two points, never from noise alone."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, strategies as st

from ttf.tools.monitor.trend import (
    HORIZON_S,
    NOT_RISING,
    TOO_EARLY,
    Point,
    Trend,
    seconds_left,
    trend,
)

MB = 1e6


def series(seconds: int, value: object, *, noise: float = 0.0, seed: int = 0) -> list[Point]:
    rng = random.Random(seed)
    assert callable(value)
    return [(1e9 + t, value(t) + rng.gauss(0, noise)) for t in range(seconds)]


@pytest.mark.parametrize(
    "points", [[], [(0, 1.0)], [(0, 1.0), (1, 5e9)], [(0.1 * i, i * MB) for i in range(9)]]
)
def test_few_points_or_a_short_time_say_nothing(points: list[Point]) -> None:
    assert trend(points) == TOO_EARLY


@pytest.mark.parametrize("seconds", [8, 30, 300])
@pytest.mark.parametrize("rate", [0.01, 1.0, 500.0])
def test_a_steady_rise_is_found_through_noise_and_outliers(seconds: int, rate: float) -> None:
    points = series(seconds, lambda t: 500 * MB + rate * MB * t, noise=0.2 * rate * MB)
    for outlier in range(5, seconds, 10):  # an evaluation
        points[outlier] = points[outlier][0], points[outlier][1] + 3000 * MB
    found = trend(points)
    assert found.rising and found.per_s == pytest.approx(rate * MB, rel=0.25)


@pytest.mark.parametrize(
    "value",
    [
        lambda t: 800 * MB,
        lambda t: 800 * MB - MB * t,
        lambda t: 800 * MB + 200 * MB * (t % 2),
        lambda t: 800 * MB + 10 * MB * (t % 20),
        lambda t: 900 * MB if t > 150 else 200 * MB,
        lambda t: min(t, 30) * 100 * MB,
        lambda t: 3e9 if t == 200 else 800 * MB,
    ],
    ids=["flat", "falling", "alternating", "sawtooth", "one step up", "loaded, then flat", "peak"],
)
def test_what_does_not_go_on_rising_is_not_rising(value: object) -> None:
    assert trend(series(300, value)) == NOT_RISING


def test_noise_alone_is_hardly_ever_a_rise() -> None:
    wrong = [trend(series(300, lambda _: 1e9, noise=MB, seed=seed)).rising for seed in range(200)]
    assert sum(map(bool, wrong)) <= 12


def test_a_leak_in_steps_is_a_rise() -> None:
    found = trend(series(300, lambda t: 500 * MB + 100 * MB * (t // 40), noise=MB))
    assert found.rising and found.per_s == pytest.approx(2.5 * MB, rel=0.4)


def test_a_rise_that_has_stopped_is_over() -> None:
    assert trend(series(300, lambda t: min(t, 150) * MB)) == NOT_RISING


def test_more_than_a_day_is_not_told_in_seconds() -> None:
    rising = Trend(True, 1.0)
    assert seconds_left(rising, 0, HORIZON_S) == HORIZON_S
    assert seconds_left(rising, 0, HORIZON_S + 1) is None
    assert seconds_left(rising, 10, 5) == 0
    assert seconds_left(NOT_RISING, 0, 5) is None and seconds_left(TOO_EARLY, 0, 5) is None


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 1e15)), max_size=80, unique_by=lambda p: p[0]
    )
)
def test_whatever_the_points_the_answer_is_a_slope_or_none(points: list[Point]) -> None:
    found = trend(sorted(points))
    assert math.isfinite(found.per_s)
    assert (found.per_s > 0) == bool(found.rising)
