"""Which run to make next, and when the culprit is sure: pure, deterministic, no I/O.

A *run* takes some ingredients out of the configuration (an ablation) and crashes or not. The state
of a study is its tally: how often each ablation was run, how often it crashed. From the tally alone
`judge` says what to run next or what came out, so that a study can be resumed and simulated.

Hypotheses: which ablations *cure*. One ingredient, with those that cure for certain when it does;
either of two ("a setting triggers it, a component carries it"); two that must both go ("two
causes"); or nothing here. Each with an unknown crash rate: a run crashes at that rate unless what it
takes out cures. Hence a crash clears everything that was taken out, all at once, and a clean run
says the more, the higher the rate. The next run is the one whose outcome tells most about who is to
be named.

Of several cures the one with the lowest rank is named: the least invasive. It is named once its
probability is at least the asked confidence, runs without it alone stayed clean, and every
ingredient of a lower rank was cleared by a crash.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal

Tally = Mapping[frozenset[str], tuple[int, int]]
"""Runs and crashes by ablation; the empty set is the configuration as it is."""

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

ALONE: Final = 2
"""Clean runs without the culprit alone that it takes at least, however sure it looks."""
_FEW_RUNS: Final = 12
"""So many are always granted, however small the grid."""
_CLIMBS: Final = 3
_CHEAP_PROOF: Final = 0.5
"""Above that rate, that less avoids nothing is shown by a crash; below, its probability must do."""
_OF_RATES: Final = 0.1
"""What a bit about the crash rate is worth beside one about who: later runs tell more by it."""


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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of a study; fixed while it runs."""

    ingredients: tuple[Ingredient, ...]
    confidence: float = 0.95
    rarest: float = 0.2
    """The lowest crash rate that is looked for before a configuration is called healthy."""
    not_together: frozenset[frozenset[str]] = frozenset()
    """What turned out not to run; nor does anything that contains it."""

    most_of_grid: float | None = 0.4
    """Of the runs of a full grid; None: as many as it takes."""

    @property
    def healthy_after(self) -> int:
        """Clean runs of the unchanged configuration after which a crash rate of `rarest` would
        have shown itself, at the asked confidence."""
        return runs_to_see(self.rarest, self.confidence, least=1)


@dataclass(frozen=True, kw_only=True)
class Next:
    """The run that is worth most now."""

    ablate: frozenset[str]
    why: str


Kind = Literal["culprit", "pair", "unexplained", "healthy", "unsure"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came out, or what is believed when the runs were used up."""

    kind: Kind
    culprit: tuple[str, ...] = ()
    """One name; two where both must go; none where nobody is named."""
    confidence: float = 0.0
    suspects: tuple[tuple[tuple[str, ...], float], ...] = ()
    """Who it could be, likeliest first; () stands for nothing that can be taken out."""
    also: tuple[str, ...] = ()
    """Avoids it as well, but changes more."""
    rate: float = 0.0
    """Of crashes where nothing cures, as far as it is known."""


def runs_to_see(rate: float, confidence: float, *, least: int = 3) -> int:
    """Repeats after which a fault of that rate has shown itself with that probability.

    >>> runs_to_see(0.3, 0.95), runs_to_see(1.0, 0.95)
    (9, 3)
    """
    if rate >= 1.0:
        return least
    return max(least, math.ceil(math.log1p(-confidence) / math.log1p(-max(rate, 0.01))))


def full_grid(plan: Plan, tally: Tally) -> int:
    """What it takes to try everything by itself: the unchanged configuration and each ingredient,
    as often as the crash rate seen (or looked for) and the asked confidence need."""
    return _grid(plan, _Study(plan, tally).rate or plan.rarest)


def _grid(plan: Plan, rate: float) -> int:
    return runs_to_see(rate, plan.confidence) * (1 + len(plan.ingredients))


def judge(plan: Plan, tally: Tally) -> Next | Verdict:
    """The next run, or the verdict; a function of its arguments alone."""
    runs, crashes = _sums(tally)
    alone, _ = tally.get(frozenset(), (0, 0))
    if not crashes:
        if alone >= plan.healthy_after:
            return Verdict(kind="healthy", confidence=1 - (1 - plan.rarest) ** alone)
        return Next(ablate=frozenset(), why="does it crash as it is?")
    study = _Study(plan, tally)
    if not study.alive:  # whatever was taken out, it crashed as well
        return Verdict(kind="unexplained", confidence=1.0, rate=crashes / runs)
    leader, probability = study.ranking[0]
    sure = probability >= plan.confidence
    wanted = study.missing_proof(leader) if sure else study.most_telling()
    if wanted is None:
        return study.verdict()
    if plan.most_of_grid is not None:
        most = max(_FEW_RUNS, plan.most_of_grid * _grid(plan, study.rate))
        if runs + 1 > most:
            return study.verdict(sure=False)
    return wanted


def believed(plan: Plan, tally: Tally) -> Verdict:
    """What can be said now, with nobody named unless `judge` does."""
    found = judge(plan, tally)
    if isinstance(found, Verdict):
        return found
    _, crashes = _sums(tally)
    return _Study(plan, tally).verdict(sure=False) if crashes else Verdict(kind="unsure")


def p_value(tally: Tally, name: str) -> float:
    """One-sided, Fisher's exact test: do runs without the ingredient crash less often?"""
    without = _sums({k: v for k, v in tally.items() if name in k})
    rest = _sums({k: v for k, v in tally.items() if name not in k})
    return fisher(without[1], without[0] - without[1], rest[1], rest[0] - rest[1])


def fisher(a: int, b: int, c: int, d: int) -> float:
    """The chance of `a` or fewer in the table [[a, b], [c, d]], were rows and columns independent.

    >>> round(fisher(0, 4, 4, 0), 4)
    0.0143
    """
    row, column, total = a + b, a + c, a + b + c + d
    low = max(0, row + column - total)
    ways = math.comb(total, row)
    return sum(math.comb(column, k) * math.comb(total - column, row - k)
               for k in range(low, a + 1)) / ways  # fmt: skip


def _sums(tally: Tally) -> tuple[int, int]:
    return sum(r for r, _ in tally.values()), sum(c for _, c in tally.values())


# --- hypotheses ----------------------------------------------------------------------------------

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


def in_order(plan: Plan) -> tuple[Ingredient, ...]:
    return tuple(sorted(plan.ingredients, key=lambda i: (i.rank, i.name)))


@cache
def hypotheses(plan: Plan) -> tuple[Hypothesis, ...]:
    """All of them, with what is believed of each before the first run."""
    order = in_order(plan)
    bit = {ingredient.name: 1 << i for i, ingredient in enumerate(order)}
    reach = [bit[i.name] | sum(bit[n] for n in i.implies if n in bit) for i in order]
    masks: dict[int, float] = {}
    for kind, found in _masks(order, reach).items():
        share = {"one": _ONE, "carried": _CARRIED, "either": _EITHER}[kind] / max(1, len(found))
        for mask in found:
            masks[mask] = masks.get(mask, 0.0) + share
    out = [Hypothesis((_lowest(mask),), (mask,), prior) for mask, prior in masks.items()]
    pairs = [(a, b) for a, b in _pairs(len(order)) if not reach[a] & reach[b]]
    out += [Hypothesis((a, b), (reach[a], reach[b]), _BOTH / len(pairs)) for a, b in pairs]
    return (*out, Hypothesis((), (), _NOTHING))


def _masks(order: Sequence[Ingredient], reach: Sequence[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {"one": list(reach), "carried": [], "either": []}
    for a, b in _pairs(len(order)):
        carried = order[b].component and not order[a].component
        found["carried" if carried else "either"].append(reach[a] | reach[b])
    return found


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(count) for b in range(a + 1, count))


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


@cache
def _evidence(crashes: int, clean: int) -> float:
    return sum(w * p**crashes * (1 - p) ** clean for p, w in RATES.items())


@cache
def _outlook(crashes: int, clean: int) -> tuple[float, float]:
    """The expected rate, and the expected entropy of an outcome at the true rate."""
    whole = _evidence(crashes, clean)
    noise = sum(w * p**crashes * (1 - p) ** clean * _entropy(p) for p, w in RATES.items())
    return _evidence(crashes + 1, clean) / whole, noise / whole


def _entropy(p: float) -> float:
    return 0.0 if p <= 0.0 or p >= 1.0 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)


# --- what the runs so far say --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Alive:
    """A hypothesis that no run has refuted."""

    who: Who
    cures: tuple[int, ...]
    weight: float
    rate: float
    """Expected, given the runs."""
    noise: float
    """Bits of a run's outcome that nothing foretells, were the rate known."""


@dataclass
class _Study:
    """The posterior, and what it asks for."""

    plan: Plan
    tally: Tally
    alive: list[_Alive] = field(init=False)

    def __post_init__(self) -> None:
        self.order = in_order(self.plan)
        self.bits = {ingredient.name: 1 << i for i, ingredient in enumerate(self.order)}
        known = {self._mask(names): counts for names, counts in self.tally.items()}
        self.known = known
        self.barred = [self._mask(names) for names in self.plan.not_together]
        self.runs, self.crashes = _sums(self.tally)
        self.alive = self._posterior(known)
        self.rate = sum(h.weight * h.rate for h in self.alive) if self.crashes else 0.0
        by_who: dict[Who, float] = {}
        for h in self.alive:
            by_who[h.who] = by_who.get(h.who, 0.0) + h.weight
        self.ranking = sorted(by_who.items(), key=lambda item: (-item[1], item[0]))

    def _mask(self, names: frozenset[str]) -> int:
        return sum(self.bits.get(name, 0) for name in names)

    def _names(self, mask: int) -> frozenset[str]:
        return frozenset(name for name, bit in self.bits.items() if bit & mask)

    def _posterior(self, known: Mapping[int, tuple[int, int]]) -> list[_Alive]:
        found: list[tuple[Hypothesis, float, int]] = []
        for h in hypotheses(self.plan):
            clean = 0
            for mask, (runs, crashes) in known.items():
                if not h.cured_by(mask):
                    clean += runs - crashes
                elif crashes:
                    break
            else:
                weight = h.prior * _evidence(self.crashes, clean)
                if weight > 0.0:
                    found.append((h, weight, clean))
        total = sum(weight for _, weight, _ in found)
        return [
            _Alive(h.who, h.cures, weight / total, *_outlook(self.crashes, clean))
            for h, weight, clean in found
        ]

    # --- the next run ---------------------------------------------------------------------------

    def most_telling(self) -> Next:
        """Climbs from the best of the simple ablations, one ingredient in or out at a time."""
        everything = (1 << len(self.order)) - 1
        singles = [1 << i for i in range(len(self.order))]
        starts = [0, *singles, *(everything & ~s for s in singles), everything]
        scored = {s: self._told_by(s) for s in starts if self._may(s)}
        best = self._climbed(max(scored, key=lambda s: (scored[s], -s)), everything)
        return Next(ablate=self._names(best), why="tells most")

    def _climbed(self, best: int, among: int) -> int:
        """The ablation that tells most, of those that differ from `best` in bits `among`."""
        bits = [1 << i for i in range(len(self.order)) if among >> i & 1]
        told = self._told_by(best)
        for _ in range(_CLIMBS):
            around = {best ^ b: self._told_by(best ^ b) for b in bits if self._may(best ^ b)}
            better = max(around, key=lambda s: (around[s], -s), default=best)
            if around.get(better, 0.0) <= told:
                break
            best, told = better, around[better]
        return best

    def _may(self, ablation: int) -> bool:
        return not any(ablation & barred == barred for barred in self.barred)

    def _told_by(self, ablation: int) -> float:
        """Bits that the outcome of a run tells about who is to be named."""
        mass: dict[Who, float] = {}
        crash: dict[Who, float] = {}
        noise = 0.0
        for h in self.alive:
            who, weight = h.who, h.weight
            mass[who] = mass.get(who, 0.0) + weight
            for mask in h.cures:
                if not mask & ablation:
                    break
            else:
                if h.cures:
                    continue
            crash[who] = crash.get(who, 0.0) + weight * h.rate
            noise += weight * h.noise
        before = _entropy(sum(crash.values()))
        left = sum(m * _entropy(crash[who] / m) for who, m in mass.items() if who in crash)
        return before - left + _OF_RATES * (before - noise)

    # --- the proof ------------------------------------------------------------------------------

    def missing_proof(self, leader: Who) -> Next | None:
        """What a person would still ask before they believe it."""
        if not leader:
            return None
        alone = sum(1 << i for i in leader)
        runs, crashes = self.known.get(alone, (0, 0))
        if runs - crashes < ALONE:
            return Next(ablate=self._names(alone), why="is it avoided without this alone?")
        if len(leader) > 1:
            return None
        suspects = self._uncleared() & ((1 << leader[0]) - 1)
        if suspects and self.rate > _CHEAP_PROOF:
            wide = self._widest(suspects)
            others = ((1 << len(self.order)) - 1) & ~wide & ~alone
            return Next(ablate=self._names(self._climbed(wide, others)), why="does less avoid it?")
        return None

    def _uncleared(self) -> int:
        cleared = 0
        for mask, (_, crashes) in self.known.items():
            cleared |= mask if crashes else 0
        return ((1 << len(self.order)) - 1) & ~cleared

    def _widest(self, suspects: int) -> int:
        """As many of them at once as can be taken out together."""
        out = 0
        for i in range(len(self.order)):
            if suspects >> i & 1 and self._may(out | 1 << i):
                out |= 1 << i
        return out

    # --- the verdict ----------------------------------------------------------------------------

    def verdict(self, *, sure: bool = True) -> Verdict:
        leader, probability = self.ranking[0]
        kinds: dict[int, Kind] = {0: "unexplained", 1: "culprit", 2: "pair"}
        names = tuple(self.order[i].name for i in leader)
        suspects = tuple(
            (tuple(self.order[i].name for i in who), p) for who, p in self.ranking if p >= 0.01
        )
        return Verdict(
            kind=kinds[len(leader)] if sure else "unsure",
            culprit=names if sure else (),
            confidence=probability,
            suspects=suspects,
            also=self._also(leader) if sure and len(leader) == 1 else (),
            rate=self.rate,
        )

    def _also(self, leader: Who) -> tuple[str, ...]:
        """Cures, by what the runs say, besides the one that is named."""
        mine = [h for h in self.alive if h.who == leader]
        total = sum(h.weight for h in mine)
        out = []
        for i, ingredient in enumerate(self.order):
            if i != leader[0]:
                share = sum(h.weight for h in mine if h.cures[0] >> i & 1) / total
                if share >= 0.9:
                    out.append(ingredient.name)
        return tuple(out)
