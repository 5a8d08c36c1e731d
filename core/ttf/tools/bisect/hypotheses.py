"""Hypotheses about the cause: which ablations cure, at which crash rates, with their priors.

An ablation cures if it takes out an ingredient of every mask of the true hypothesis. One mask:
any of its ingredients is enough. Two masks: two causes. No mask: nothing here cures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

# Prior of the crash rate: many faults are deterministic.
RATES: Final[Mapping[float, float]] = {
    0.05: 0.02,
    0.1: 0.06,
    0.2: 0.1,
    0.3: 0.1,
    0.4: 0.08,
    0.5: 0.08,
    0.6: 0.06,
    0.7: 0.05,
    0.8: 0.05,
    0.9: 0.06,
    0.97: 0.06,
    1.0: 0.2,
}

# Prior of each kind of hypothesis, shared by all hypotheses of the kind.
_ONE, _CARRIED, _EITHER, _BOTH, _NOTHING = 0.58, 0.32, 0.04, 0.03, 0.03


@dataclass(frozen=True, kw_only=True)
class Ingredient:
    """An ingredient that can be taken out, as the planner sees it."""

    name: str
    rank: int  # of several cures, the lowest rank is named
    # if taking this out cures, taking these out cures as well
    implies: frozenset[str] = frozenset()
    component: bool = False  # may carry a fault that a setting triggers: then both cure


Who = tuple[int, ...]  # Indices of ingredients by rank: one, two that must both go, or none.


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An ablation is a bit set. It cures if it has a bit of every mask in `cures`."""

    who: Who
    cures: tuple[int, ...]
    prior: float

    def cured_by(self, ablation: int) -> bool:
        return bool(self.cures) and all(mask & ablation for mask in self.cures)


@cache
def hypotheses(order: tuple[Ingredient, ...], *, wide: bool = False) -> tuple[Hypothesis, ...]:
    """All hypotheses with their priors; `order` is by rank.

    `wide` adds two causes of which a component carries one. They are many, and only worth their
    time if no single cause explains the runs.
    """
    bit = {ingredient.name: 1 << i for i, ingredient in enumerate(order)}
    reach = [bit[i.name] | sum(bit[n] for n in i.implies if n in bit) for i in order]
    masks: dict[int, float] = {}
    for kind, of_kind in _masks(order, reach).items():
        share = {"one": _ONE, "carried": _CARRIED, "either": _EITHER}[kind] / max(1, len(of_kind))
        for mask in of_kind:
            masks[mask] = masks.get(mask, 0.0) + share
    out = []
    for mask, prior in masks.items():
        lowest = (mask & -mask).bit_length() - 1
        out.append(Hypothesis((lowest,), (mask,), prior))
    pairs = [(a, b) for a, b in _pairs(len(order)) if not reach[a] & reach[b]]
    out += [Hypothesis((a, b), (reach[a], reach[b]), _BOTH / len(pairs)) for a, b in pairs]
    if wide:
        carried = [c for pair in pairs for c in _carried(order, reach, pair)]
        out += [Hypothesis(who, cures, _BOTH / len(carried)) for who, cures in carried]
    return (*out, Hypothesis((), (), _NOTHING))


def _carried(
    order: Sequence[Ingredient], reach: Sequence[int], pair: tuple[int, int]
) -> Iterator[tuple[Who, tuple[int, int]]]:
    """The pair, with one of its causes carried by a component of a higher rank."""
    first, second = (reach[i] for i in pair)
    for c in range(len(order)):
        carrier = reach[c]
        if not order[c].component or carrier & (first | second):
            continue
        if c > pair[0]:
            yield pair, (first | carrier, second)
        if c > pair[1]:
            yield pair, (first, second | carrier)


def _masks(order: Sequence[Ingredient], reach: Sequence[int]) -> dict[str, list[int]]:
    by_kind: dict[str, list[int]] = {"one": list(reach), "carried": [], "either": []}
    for a, b in _pairs(len(order)):
        carried = order[b].component and not order[a].component
        by_kind["carried" if carried else "either"].append(reach[a] | reach[b])
    return by_kind


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(count) for b in range(a + 1, count))


@cache
def evidence(crashes: int, clean: int) -> float:
    """The likelihood of these crashes and uncured clean runs, over the prior of the rate."""
    return sum(w * p**crashes * (1 - p) ** clean for p, w in RATES.items())


@cache
def outlook(crashes: int, clean: int) -> tuple[float, float]:
    """The expected rate, and the expected entropy of an outcome at the true rate."""
    whole = evidence(crashes, clean)
    noise = sum(w * p**crashes * (1 - p) ** clean * entropy(p) for p, w in RATES.items())
    return evidence(crashes + 1, clean) / whole, noise / whole


def entropy(p: float) -> float:
    """In bits, of an outcome with this probability."""
    return 0.0 if p <= 0.0 or p >= 1.0 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)
