"""Many deaths: what they are tied to is found, and chance is not taken for a pattern."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from tests.kit.simulated_deaths import (
    ACCUMULATE,
    SHARE,
    aging_history,
    boundary_history,
    random_history,
    spiking_history,
)

from ttf.tools.runs.deaths import Deaths, DeathSeen
from ttf.tools.runs.pattern import (
    Look,
    at_least,
    boundary_power,
    corrected,
    irwin_hall,
    pattern_of,
    shares_beyond,
)


def test_of_forty_histories_the_tied_ones_are_found_and_the_random_ones_are_not() -> None:
    tied = [pattern_of(boundary_history(seed)).tied_to for seed in range(20)]
    free = [pattern_of(random_history(seed)).tied_to for seed in range(100, 120)]
    assert sum("boundary" in names for names in tied) >= 18
    assert sum(bool(names) for names in free) <= 1


@pytest.mark.parametrize(
    ("history", "name"), [(aging_history, "time"), (spiking_history, "memory")]
)
def test_deaths_by_age_and_by_memory_are_found(history: Callable[[int], Deaths], name: str) -> None:
    found = [pattern_of(history(seed)).tied_to for seed in range(20)]
    assert sum(name in names for names in found) >= 18


def test_the_boundary_test_is_that_of_independent_events() -> None:
    rng = random.Random(0)
    chances = [rng.random() for _ in range(6)]
    for hits in range(7):
        exact = sum(
            _product(c if one else 1 - c for c, one in zip(chances, case, strict=True))
            for case in itertools.product([0, 1], repeat=6)
            if sum(case) >= hits
        )
        assert at_least(hits, chances) == pytest.approx(exact)


def _product(values: object) -> float:
    result = 1.0
    for value in values:  # type: ignore[attr-defined]
        result *= value
    return result


@pytest.mark.parametrize("count", [1, 2, 5, 12, 60, 300])
def test_sums_of_uniform_numbers_are_exact_and_symmetric(count: int) -> None:
    assert irwin_hall(count / 2, count) == pytest.approx(0.5, abs=1e-4)
    low, high = irwin_hall(0.4 * count, count), irwin_hall(0.6 * count, count)
    assert low + high == pytest.approx(1, abs=1e-4) and low < 0.5 < high


def test_ages_under_a_constant_risk_give_uniform_p_values() -> None:
    rng = random.Random(1)
    below = 0
    for _ in range(2000):
        ages = [rng.expovariate(1.0) for _ in range(7)]
        below += irwin_hall(sum(shares_beyond(ages, ages)), 6) < 0.1
    assert 160 <= below <= 240, "one in ten, give or take three standard deviations"


def test_holm_multiplies_by_the_looks_that_are_left() -> None:
    looks = [
        Look(name="a", deaths=5, says="", p=0.02),
        Look(name="b", deaths=5, says="", p=0.001),
        Look(name="c", deaths=0, says=""),
        Look(name="d", deaths=5, says="", p=0.5),
    ]
    assert [look.corrected for look in corrected(looks)] == [0.06, 0.004, None, 1.0]


def test_too_few_deaths_are_told_with_the_number_that_would_do() -> None:
    assert boundary_power(2, SHARE).startswith("with 2, even 2 of 2 at the boundary prove nothing")
    assert "4 deaths could show one" in boundary_power(2, SHARE)
    assert boundary_power(8, SHARE).startswith("6 of 8 at the boundary would show it")
    assert "no number of deaths would do" in boundary_power(5, 1.0)


def death(number: int, **known: object) -> DeathSeen:
    place = {"step": number, "micro_batch": ACCUMULATE, "boundary_share": SHARE, **known}
    return DeathSeen(
        run="r",
        id=str(number),
        name="segfault",
        process="trainer",
        phase="forward",
        micro_batches=ACCUMULATE,
        **place,  # type: ignore[arg-type]
    )


def test_a_crash_that_repeats_at_one_place_is_one_fact() -> None:
    again = pattern_of(Deaths(deaths=tuple(death(n, step=7) for n in range(8))))
    assert again.tied_to == () and again.looks[0].deaths == 1
    (remark,) = again.remarks
    assert remark.startswith("8 deaths are at the same place, step 8, micro-batch 16:")
    assert pattern_of(Deaths(deaths=tuple(map(death, range(8))))).tied_to == ("boundary",)


def test_deaths_right_after_a_mining_are_found_and_survivors_count() -> None:
    mined = [
        death(
            n,
            micro_batch=5 + n % 7,
            since_mining_steps=n % 3,
            mined_for_steps=200,
            trained_s=10.0 * n,
        )
        for n in range(1, 7)
    ]
    assert pattern_of(Deaths(deaths=tuple(mined))).tied_to == ("mining",)
    # The same ages beside ten processes that lived much longer: all of them died early.
    young = pattern_of(Deaths(deaths=tuple(mined), survived_s=(3600.0,) * 10))
    assert young.tied_to == ("time", "mining")
    assert "early deaths are many" in young.looks[1].says


@pytest.mark.parametrize("count", [0, 1])
def test_one_death_or_none_has_no_pattern(count: int) -> None:
    found = pattern_of(Deaths(deaths=tuple(death(n, trained_s=5.0) for n in range(count))))
    assert found.tied_to == () and found.deaths == count
