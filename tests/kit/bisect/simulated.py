"""Studies without a single process: the design alone, against culprits that a generator draws."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ttf.tools.bisect.factors import RULES
from ttf.tools.bisect.hypotheses import Ingredient
from ttf.tools.bisect.planner import (
    BisectPlan,
    BisectVerdict,
    NextRun,
    believed,
    judge,
    runs_to_see,
)

Tally = dict[frozenset[str], tuple[int, int]]
_COMPONENTS = ("miner", "storage", "observers", "doc-tower", "tower", "device")


def ingredients(names: Sequence[str] = tuple(RULES)) -> tuple[Ingredient, ...]:
    """As the factors have them."""
    return tuple(
        Ingredient(
            name=name,
            rank=list(RULES).index(name),
            implies=frozenset({"mining"} if name in ("isolation", "miner") else ()),
            component=name in _COMPONENTS,
        )
        for name in RULES
        if name in names
    )


@cache
def _judged(
    plan: BisectPlan, tally: frozenset[tuple[frozenset[str], tuple[int, int]]]
) -> NextRun | BisectVerdict:
    """The design is a function of what was seen: many studies pass the same points."""
    return judge(plan, dict(tally))


@dataclass(frozen=True, kw_only=True)
class Studied:
    verdict: BisectVerdict
    runs: int
    tally: Tally

    def share(self, plan: BisectPlan, rate: float) -> float:
        """Of a full grid at the true rate."""
        repeats = runs_to_see(rate, plan.confidence)
        return self.runs / (repeats * (1 + len(plan.ingredients)))


def study(
    rng: random.Random,
    plan: BisectPlan,
    causes: Sequence[frozenset[str]],
    rate: float,
    *,
    most: int = 1000,
) -> Studied:
    """`causes`: of each something must be taken out, or a run crashes at that rate."""
    tally: Tally = {}
    for number in range(most):
        found = _judged(plan, frozenset(tally.items()))
        if isinstance(found, BisectVerdict):
            return Studied(verdict=found, runs=number, tally=tally)
        cured = bool(causes) and all(found.ablate & cause for cause in causes)
        runs, crashes = tally.get(found.ablate, (0, 0))
        tally[found.ablate] = (runs + 1, crashes + (not cured and rng.random() < rate))
    return Studied(verdict=believed(plan, tally), runs=most, tally=tally)


def drawn(rng: random.Random, plan: BisectPlan, *, shadow: bool) -> tuple[str, frozenset[str]]:
    """A culprit and what cures: itself, what that implies, and the component that carries it."""
    chosen = rng.choice(plan.ingredients)
    names = {i.name for i in plan.ingredients}
    cure = {chosen.name, *chosen.implies} & names
    carriers = [i for i in plan.ingredients if i.component and i.rank > chosen.rank]
    if shadow and carriers and not chosen.component:
        carrier = rng.choice(carriers)
        cure |= {carrier.name, *carrier.implies} & names
    return chosen.name, frozenset(cure)
