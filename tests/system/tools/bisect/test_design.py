"""The design by itself: it names the right one, or nobody, and wastes no run."""

from __future__ import annotations

import math
import os
import random
import statistics

import pytest
from tests.kit.simulated_bisect import drawn, ingredients, study
from tests.kit.widely import wide

from ttf.tools.bisect.factors import RULES
from ttf.tools.bisect.output import fisher, p_value
from ttf.tools.bisect.planner import (
    BisectPlan,
    BisectVerdict,
    NextRun,
    believed,
    full_grid,
    judge,
    runs_to_see,
)

SCALE = 15 if os.environ.get("TTF_CHAOS", "0") not in ("", "0") else 1
"""Times as many studies."""
COMMON = tuple(n for n in RULES if n not in ("device", "dropout"))


def test_the_first_run_is_the_configuration_as_it_is() -> None:
    first = judge(BisectPlan(ingredients=ingredients()), {})
    assert isinstance(first, NextRun) and first.ablate == frozenset()


def test_a_healthy_configuration_gets_nobody_named() -> None:
    plan = BisectPlan(ingredients=ingredients())
    done = study(random.Random(0), plan, [frozenset({"tower"})], 0.0)
    assert done.verdict.kind == "healthy" and done.verdict.culprit == ()
    assert done.runs == plan.healthy_after == 14
    assert set(done.tally) == {frozenset()}


def test_rarer_crashes_are_looked_for_longer_where_asked() -> None:
    assert BisectPlan(ingredients=(), rarest=0.05).healthy_after == 59


@pytest.mark.parametrize("shadow", [False, True], ids=["alone", "carried by a component"])
def test_a_deterministic_culprit_is_always_found_with_two_fifths_of_the_grid(shadow: bool) -> None:
    rng, shares = random.Random(1), []
    for _ in range(60 * SCALE):
        names = rng.sample(list(RULES), rng.randint(9, len(RULES)))
        plan = BisectPlan(ingredients=ingredients(names))
        culprit, cures = drawn(rng, plan, shadow=shadow)
        done = study(rng, plan, [cures], 1.0)
        assert done.verdict.culprit == (culprit,), (cures, done)
        shares.append(done.share(plan, 1.0))
    print(f"deterministic: {_told(shares)}")
    assert max(shares) <= 0.4


@pytest.mark.parametrize(
    ("rate", "count", "least"),
    [pytest.param(0.6, 12, 0.9, marks=wide), (0.3, 20, 0.9), pytest.param(0.1, 3, 0.1, marks=wide)],
)
def test_a_flaky_culprit_is_found_and_hardly_ever_another_one(
    rate: float, count: int, least: float
) -> None:
    rng, plan = random.Random(2), BisectPlan(ingredients=ingredients(COMMON))
    right, wrong, shares, measured = 0, 0, [], []
    total = count * SCALE
    for number in range(total):
        culprit, cures = drawn(rng, plan, shadow=number % 2 == 0)
        done = study(rng, plan, [cures], rate)
        right += done.verdict.culprit == (culprit,)
        wrong += done.verdict.culprit not in ((), (culprit,))
        shares.append(done.share(plan, rate))
        measured.append(done.runs / full_grid(plan, done.tally))
    print(f"rate {rate}: right {right}/{total}, wrong {wrong}; {_told(shares)}; "
          f"by the measured rate {_told(measured)}")  # fmt: skip
    assert right >= least * total
    # A rate below the one that is looked for is easily taken for a higher one.
    assert wrong <= max(1, (0.05 if rate >= plan.rarest else 0.2) * total)
    assert statistics.median(shares) <= 0.4


def _told(shares: list[float]) -> str:
    ordered = sorted(shares)
    high = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return (
        f"share of the grid: median {statistics.median(ordered):.2f}, 95th percentile {high:.2f}, "
        f"most {ordered[-1]:.2f}"
    )


def test_two_causes_are_told_as_two() -> None:
    plan = BisectPlan(ingredients=ingredients(COMMON), most_of_grid=None)
    causes = [frozenset({"accumulation"}), frozenset({"threads"})]
    done = study(random.Random(3), plan, causes, 1.0)
    assert done.verdict.kind == "pair"
    assert done.verdict.culprit == ("accumulation", "threads")


def test_two_causes_are_told_even_where_a_component_carries_one_of_them() -> None:
    plan = BisectPlan(ingredients=ingredients(COMMON))
    causes = [frozenset({"accumulation", "tower"}), frozenset({"memory-bank"})]
    done = study(random.Random(3), plan, causes, 1.0)
    assert done.verdict.kind == "pair"
    assert done.verdict.culprit == ("accumulation", "memory-bank")


def test_what_lies_outside_of_the_configuration_is_blamed_on_nobody() -> None:
    plan = BisectPlan(ingredients=ingredients(COMMON))
    done = study(random.Random(4), plan, [], 1.0)
    assert done.verdict.kind == "unexplained" and done.verdict.culprit == ()
    assert done.runs <= 8


def test_of_several_cures_the_least_invasive_is_named_and_the_others_are_told() -> None:
    plan = BisectPlan(ingredients=ingredients(COMMON))
    cure = frozenset({"isolation", "miner", "mining"})
    done = study(random.Random(5), plan, [cure], 1.0)
    assert done.verdict.culprit == ("isolation",)
    assert "mining" in done.verdict.also


def test_what_will_not_go_without_is_not_tried_again() -> None:
    names = ("accumulation", "threads", "tower", "storage")
    barred = frozenset({"tower", "storage"})
    plan = BisectPlan(ingredients=ingredients(names), not_together=frozenset({barred}))
    done = study(random.Random(6), plan, [frozenset({"tower"})], 1.0)
    assert done.verdict.culprit == ("tower",)
    assert not any(barred <= ablation for ablation in done.tally)


def test_a_pair_that_cannot_be_tried_is_not_named_and_ends_the_study() -> None:
    names = ("accumulation", "threads", "precision")
    barred = frozenset({frozenset({"accumulation", "threads"})})
    plan = BisectPlan(ingredients=ingredients(names), not_together=barred, most_of_grid=None)
    causes = [frozenset({"accumulation"}), frozenset({"threads"})]
    done = study(random.Random(7), plan, causes, 1.0)
    assert done.verdict.kind != "culprit" and done.runs < 100


def test_clean_runs_without_what_will_not_go_alone_prove_nothing() -> None:
    plan = BisectPlan(ingredients=ingredients(("accumulation", "threads")))
    crash = {frozenset[str](): (2, 2)}
    with_other = {**crash, frozenset({"tower", "threads"}): (9, 0)}
    assert believed(plan, with_other).suspects == believed(plan, crash).suspects


def test_used_up_runs_end_in_doubt_and_not_in_a_name() -> None:
    plan = BisectPlan(ingredients=ingredients(COMMON))
    tally = {frozenset[str](): (2, 1), frozenset({"threads"}): (1, 0)}
    found = believed(plan, tally)
    assert found.kind == "unsure" and found.culprit == ()
    assert found.suspects and abs(sum(p for _, p in found.suspects) - 1) < 0.2


def test_a_configuration_without_ingredients_still_gets_an_answer() -> None:
    found = judge(BisectPlan(ingredients=()), {frozenset(): (2, 2)})
    assert isinstance(found, BisectVerdict) and found.kind == "unexplained"


def test_the_same_runs_always_lead_to_the_same_next_one() -> None:
    plan = BisectPlan(ingredients=ingredients())
    tally = {frozenset[str](): (2, 1), frozenset({"threads", "tower"}): (1, 1)}
    again = dict(reversed(tally.items()))
    assert judge(plan, tally) == judge(plan, again)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((0, 4, 4, 0), 1 / 70),
        ((3, 1, 1, 3), 1 - 1 / 70),
        ((1, 9, 11, 3), 0.001379728),  # the example of Fisher's test in common textbooks
        ((0, 0, 5, 5), 1.0),
        ((0, 3, 0, 3), 1.0),
    ],
)
def test_fishers_exact_test_has_the_known_values(
    table: tuple[int, int, int, int], expected: float
) -> None:
    assert fisher(*table) == pytest.approx(expected, rel=1e-4)


def test_the_p_value_compares_runs_without_the_ingredient_with_the_others() -> None:
    tally = {
        frozenset[str](): (3, 3),
        frozenset({"threads"}): (3, 0),
        frozenset({"tower", "threads"}): (1, 0),
        frozenset({"tower"}): (1, 1),
    }
    assert p_value(tally, "threads") == pytest.approx(1 / 70)
    assert p_value(tally, "tower") > 0.5


def test_a_grid_repeats_until_a_flaky_crash_would_have_shown() -> None:
    assert [runs_to_see(p, 0.95) for p in (1.0, 0.6, 0.3, 0.1)] == [3, 4, 9, 29]
