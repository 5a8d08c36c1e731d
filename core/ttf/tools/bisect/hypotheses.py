"""What may be the cause: which ablations cure, at which crash rates; believed before the first run.

An ablation cures if it takes out something of every mask of the hypothesis that is true. One mask:
any one of its ingredients will do. Two: there are two causes. None: nothing here cures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

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
"""What is believed of crash rates before the first run; many faults are deterministic."""

_ONE, _CARRIED, _EITHER, _BOTH, _NOTHING = 0.58, 0.32, 0.04, 0.03, 0.03
"""What is believed of the kinds of hypotheses; each is shared by all of its kind."""


@dataclass(frozen=True, kw_only=True)
class Ingredient:
    """What can be taken out, as the design sees it."""

    name: str
    rank: int
    """Of several cures the one with the lowest is named."""
    implies: frozenset[str] = frozenset()
    """Where taking this out cures, taking these out cures as well."""
    component: bool = False
    """It may carry a fault that a setting triggers: then both cure."""


Who = tuple[int, ...]
"""Indices of ingredients in the order of their ranks: one, two that must both go, or none."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Ablations are sets of bits: one cures that has a bit of every mask here."""

    who: Who
    cures: tuple[int, ...]
    prior: float

    def cured_by(self, ablation: int) -> bool:
        return bool(self.cures) and all(mask & ablation for mask in self.cures)


@cache
def hypotheses(order: tuple[Ingredient, ...], *, wide: bool = False) -> tuple[Hypothesis, ...]:
    """All of them, with what is believed of each before the first run; `order` is that of ranks.

    `wide`: two causes of which one is carried by a component, too. They are many, and only worth
    their time where no single cause explains the runs.
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
    """The pair with one of its causes carried by a component of a higher rank."""
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
    """How likely that many crashes, and clean runs that nothing cured, are at an unknown rate."""
    return sum(w * p**crashes * (1 - p) ** clean for p, w in RATES.items())


@cache
def outlook(crashes: int, clean: int) -> tuple[float, float]:
    """The expected rate, and the expected entropy of an outcome at the true rate."""
    whole = evidence(crashes, clean)
    noise = sum(w * p**crashes * (1 - p) ** clean * entropy(p) for p, w in RATES.items())
    return evidence(crashes + 1, clean) / whole, noise / whole


def entropy(p: float) -> float:
    """Bits of an outcome that has this probability."""
    return 0.0 if p <= 0.0 or p >= 1.0 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)
