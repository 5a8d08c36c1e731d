"""The plan of a study whose ingredients cannot all be taken out."""

from __future__ import annotations

from ttf.tools.bisect.hypotheses import Ingredient
from ttf.tools.bisect.planner import BisectPlan, NextRun, judge, most_runs


def plan(*names: str, refused: tuple[frozenset[str], ...] = ()) -> BisectPlan:
    found = tuple(Ingredient(name=name, rank=place) for place, name in enumerate(names))
    return BisectPlan(ingredients=found, not_together=frozenset(refused))


def test_a_refused_ingredient_bars_no_run_without_the_others() -> None:
    refused = (frozenset({"gone"}), frozenset({"gone", "a"}))
    found = judge(plan("a", "b", refused=refused), {frozenset(): (1, 1)})
    assert isinstance(found, NextRun) and found.ablate


def test_the_bound_of_a_study_is_known_before_its_first_run() -> None:
    # A fifth of the runs crash at the rarest: 14 repeats of each of three, and 40% of them.
    assert most_runs(plan("a", "b")) == 16
