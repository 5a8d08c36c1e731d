"""Which run to make next, and when the culprit is sure: pure, deterministic, no I/O.

A *run* takes some ingredients out of the configuration (an ablation) and crashes or not. The state
of a study is its tally: how often each ablation was run and how often it crashed. `judge` needs
only the tally, so that a study can be resumed and simulated.

Hypotheses: which ablations *cure*. One ingredient, with those that cure for certain when it does;
either of two ("a setting triggers it, a component carries it"); two that must both go ("two
causes"); or nothing here. Each has an unknown crash rate: a run crashes at that rate unless its
ablation cures. So a crash clears everything that was taken out, and a clean run says more if the
rate is high. The next run is the one whose outcome tells most about the culprit.

Of several cures the one with the lowest rank is named: the least invasive. It is named once its
probability is at least the asked confidence, runs without it alone stayed clean, and (if crashes
are frequent, so that this costs little) a crash has cleared every ingredient of a lower rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ttf.tools.bisect.hypotheses import (
    Hypothesis,
    Ingredient,
    Who,
    entropy,
    evidence,
    hypotheses,
    outlook,
)

# Runs and crashes by ablation; the empty set is the unchanged configuration.
Tally = Mapping[frozenset[str], tuple[int, int]]

ALONE: Final = 2  # The fewest clean runs without the culprit alone.
_FEW_RUNS: Final = 12  # Granted however small the grid is.
_CLIMBS: Final = 3
_NO_SINGLE: Final = 0.5  # If a single cause is less probable, two causes are looked at as well.
_STRICTER_DOUBT: Final = 0.5
_NOTHING_NEW: Final = 1e-6
# Above this crash rate, a crash proves that less is not enough; below, probability decides.
_PROOF_ABOVE_RATE: Final = 0.5
# The weight of a bit about the crash rate: later runs tell more if the rate is known.
_RATE_WEIGHT: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class BisectPlan:
    """What a study decides, and how surely; fixed while it runs."""

    ingredients: tuple[Ingredient, ...]
    confidence: float = 0.95
    # The lowest crash rate to look for before a configuration is called healthy.
    rarest: float = 0.2
    # Ablations that do not run; nor do their supersets.
    not_together: frozenset[frozenset[str]] = frozenset()

    most_of_grid: float | None = 0.4  # share of the runs of a full grid; None: no limit

    @property
    def healthy_after(self) -> int:
        """Clean unchanged runs that rule out a crash rate of `rarest` at the asked confidence."""
        return runs_to_see(self.rarest, self.confidence, least=1)


@dataclass(frozen=True, kw_only=True)
class NextRun:
    ablate: frozenset[str]
    why: str


Kind = Literal["culprit", "pair", "unexplained", "healthy", "unsure"]


@dataclass(frozen=True, kw_only=True)
class BisectVerdict:
    """The result, or the current belief when the runs were used up."""

    kind: Kind
    culprit: tuple[str, ...] = ()  # two if both must go; empty if none is named
    confidence: float = 0.0
    # With probabilities, likeliest first; () stands for nothing that can be taken out.
    suspects: tuple[tuple[tuple[str, ...], float], ...] = ()
    also: tuple[str, ...] = ()  # avoid the crash too, but change more
    rate: float = 0.0  # estimated crash rate of uncured runs


def runs_to_see(rate: float, confidence: float, *, least: int = 3) -> int:
    """Repeats after which a fault of that rate has shown itself with that probability.

    >>> runs_to_see(0.3, 0.95), runs_to_see(1.0, 0.95)
    (9, 3)
    """
    if rate >= 1.0:
        return least
    return max(least, math.ceil(math.log1p(-confidence) / math.log1p(-max(rate, 0.01))))


def in_order(plan: BisectPlan) -> tuple[Ingredient, ...]:
    return tuple(sorted(plan.ingredients, key=lambda i: (i.rank, i.name)))


def full_grid(plan: BisectPlan, tally: Tally) -> int:
    """Runs to try the unchanged configuration and each ingredient alone, as often as the crash rate
    seen (or looked for) and the asked confidence need."""
    return _grid(plan, _Posterior(plan, tally).rate or plan.rarest)


def most_runs(plan: BisectPlan) -> int | None:
    """No study takes more counted runs; known before the first. None: no limit."""
    if plan.most_of_grid is None:
        return None
    return max(plan.healthy_after, math.floor(_most(plan, plan.rarest)))


def _most(plan: BisectPlan, rate: float) -> float:
    assert plan.most_of_grid is not None
    return max(_FEW_RUNS, plan.most_of_grid * _grid(plan, max(rate, plan.rarest)))


def _grid(plan: BisectPlan, rate: float) -> int:
    return runs_to_see(rate, plan.confidence) * (1 + len(plan.ingredients))


def judge(plan: BisectPlan, tally: Tally) -> NextRun | BisectVerdict:
    """The next run or the verdict; depends only on the arguments."""
    runs, crashes = sums(tally)
    alone, _ = tally.get(frozenset(), (0, 0))
    if not crashes:
        if alone >= plan.healthy_after:
            return BisectVerdict(kind="healthy", confidence=1 - (1 - plan.rarest) ** alone)
        return NextRun(ablate=frozenset(), why="does the unchanged configuration crash?")
    study = _Posterior(plan, tally)
    if not study.alive:  # whatever was taken out, it crashed as well
        return BisectVerdict(kind="unexplained", confidence=1.0, rate=crashes / runs)
    leader, probability = study.ranking[0]
    sure = 1 - probability <= (1 - plan.confidence) * study.doubt()
    wanted = study.missing_proof(leader) if sure else study.most_telling()
    if wanted is None:
        return study.verdict(sure=sure and study.proven(leader))
    if plan.most_of_grid is not None and runs + 1 > _most(plan, study.rate):
        return study.verdict(sure=False)
    return wanted


def believed(plan: BisectPlan, tally: Tally) -> BisectVerdict:
    """The current verdict; names no culprit unless `judge` does."""
    answer = judge(plan, tally)
    if isinstance(answer, BisectVerdict):
        return answer
    _, crashes = sums(tally)
    return _Posterior(plan, tally).verdict(sure=False) if crashes else BisectVerdict(kind="unsure")


def sums(tally: Tally) -> tuple[int, int]:
    return sum(r for r, _ in tally.values()), sum(c for _, c in tally.values())


# --- what the runs so far say --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenHypothesis:
    """A hypothesis that no run has refuted."""

    who: Who
    cures: tuple[int, ...]
    weight: float
    rate: float  # expected, given the runs
    noise: float  # bits of an outcome that stay unknown even if the rate is known


@dataclass
class _Posterior:
    """The posterior, and the next run that it asks for."""

    plan: BisectPlan
    tally: Tally
    alive: list[_OpenHypothesis] = field(init=False)

    def __post_init__(self) -> None:
        self.order = in_order(self.plan)
        self.bits = {ingredient.name: 1 << i for i, ingredient in enumerate(self.order)}
        self.known = self._known()
        # A set with a refused ingredient does not occur any more.
        barred = [names for names in self.plan.not_together if names <= self.bits.keys()]
        self.barred = [self._mask(names) for names in barred]
        self.runs, self.crashes = sums(self.tally)
        self.alive = self._posterior(self.known)
        if self.crashes and sum(h.weight for h in self.alive if len(h.who) == 1) < _NO_SINGLE:
            self.alive = self._posterior(self.known, wide=True)
        self.rate = sum(h.weight * h.rate for h in self.alive) if self.crashes else 0.0
        by_who: dict[Who, float] = {}
        for h in self.alive:
            by_who[h.who] = by_who.get(h.who, 0.0) + h.weight
        self.ranking = sorted(by_who.items(), key=lambda item: (-item[1], item[0]))

    def doubt(self) -> float:
        # A rate below `rarest` is easily overestimated, and clean runs then count for too much.
        return 1.0 if self.rate >= self.plan.rarest else _STRICTER_DOUBT

    def _known(self) -> dict[int, tuple[int, int]]:
        # A run without a refused ingredient (no run of its own is possible) counts only if it
        # crashed: if it was clean, that ingredient may be the cure.
        out: dict[int, tuple[int, int]] = {}
        for names, (runs, crashes) in self.tally.items():
            mask = self._mask(names)
            before = out.get(mask, (0, 0))
            counted = runs if names <= self.bits.keys() else crashes
            out[mask] = (before[0] + counted, before[1] + crashes)
        return out

    def _mask(self, names: frozenset[str]) -> int:
        return sum(self.bits.get(name, 0) for name in names)

    def _names(self, mask: int) -> frozenset[str]:
        return frozenset(name for name, bit in self.bits.items() if bit & mask)

    def _posterior(
        self, known: Mapping[int, tuple[int, int]], *, wide: bool = False
    ) -> list[_OpenHypothesis]:
        possible: list[tuple[Hypothesis, float, int]] = []
        for h in hypotheses(self.order, wide=wide):
            clean = 0
            for mask, (runs, crashes) in known.items():
                if not h.cured_by(mask):
                    clean += runs - crashes
                elif crashes:
                    break
            else:
                weight = h.prior * evidence(self.crashes, clean)
                if weight > 0.0:
                    possible.append((h, weight, clean))
        total = sum(weight for _, weight, _ in possible)
        return [
            _OpenHypothesis(h.who, h.cures, weight / total, *outlook(self.crashes, clean))
            for h, weight, clean in possible
        ]

    # --- the next run ---------------------------------------------------------------------------

    def most_telling(self) -> NextRun | None:
        """Climbs from the best simple ablation, one ingredient in or out at a time.

        None if no possible run tells anything.
        """
        everything = (1 << len(self.order)) - 1
        singles = [1 << i for i in range(len(self.order))]
        starts = [0, *singles, *(everything & ~s for s in singles), everything]
        scored = {s: self._information(s) for s in starts if self._is_possible(s)}
        best = self._climbed(max(scored, key=lambda s: (scored[s], -s)), everything)
        if self._information(best, of_rates=0.0) < _NOTHING_NEW:  # it tells about the rate alone
            best = max(scored, key=lambda s: (self._information(s, of_rates=0.0), -s))
            if self._information(best, of_rates=0.0) < _NOTHING_NEW:
                return None
        return NextRun(ablate=self._names(best), why="the run with the most information")

    def _climbed(self, best: int, among: int) -> int:
        """The best ablation that differs from `best` only in the bits `among`."""
        bits = [1 << i for i in range(len(self.order)) if among >> i & 1]
        most_bits = self._information(best)
        for _ in range(_CLIMBS):
            around = {
                best ^ b: self._information(best ^ b) for b in bits if self._is_possible(best ^ b)
            }
            better = max(around, key=lambda s: (around[s], -s), default=best)
            if around.get(better, 0.0) <= most_bits:
                break
            best = better
            most_bits = around[better]
        return best

    def _is_possible(self, ablation: int) -> bool:
        return not any(ablation & barred == barred for barred in self.barred)

    def _information(self, ablation: int, of_rates: float = _RATE_WEIGHT) -> float:
        """Bits of information about the culprit in the outcome of a run."""
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
        before = entropy(sum(crash.values()))
        left = sum(m * entropy(crash[who] / m) for who, m in mass.items() if who in crash)
        return before - left + of_rates * (before - noise)

    # --- the proof ------------------------------------------------------------------------------

    def missing_proof(self, leader: Who) -> NextRun | None:
        """The next run of the proof; None if the proof is complete or not possible."""
        if not leader:
            return None
        alone = sum(1 << i for i in leader)
        if not self.proven(leader):
            possible = self._is_possible(alone)
            why = "does it not crash without this ingredient alone?"
            return NextRun(ablate=self._names(alone), why=why) if possible else None
        if len(leader) > 1:
            return None
        suspects = self._uncleared() & ((1 << leader[0]) - 1)
        if suspects and self.rate > _PROOF_ABOVE_RATE:
            wide = self._widest(suspects)
            others = ((1 << len(self.order)) - 1) & ~wide & ~alone
            return NextRun(
                ablate=self._names(self._climbed(wide, others)),
                why="does a smaller change avoid it?",
            )
        return None

    def proven(self, leader: Who) -> bool:
        """Whether enough runs without these alone were clean; no leader needs no proof."""
        runs, crashes = self.known.get(sum(1 << i for i in leader), (0, 0))
        return not leader or runs - crashes >= ALONE

    def _uncleared(self) -> int:
        cleared = 0
        for mask, (_, crashes) in self.known.items():
            cleared |= mask if crashes else 0
        return ((1 << len(self.order)) - 1) & ~cleared

    def _widest(self, suspects: int) -> int:
        """As many suspects as can be taken out together."""
        out = 0
        for i in range(len(self.order)):
            if suspects >> i & 1 and self._is_possible(out | 1 << i):
                out |= 1 << i
        return out

    # --- the verdict ----------------------------------------------------------------------------

    def verdict(self, *, sure: bool = True) -> BisectVerdict:
        leader, probability = self.ranking[0]
        kinds: dict[int, Kind] = {0: "unexplained", 1: "culprit", 2: "pair"}
        names = tuple(self.order[i].name for i in leader)
        suspects = tuple(
            (tuple(self.order[i].name for i in who), p) for who, p in self.ranking if p >= 0.01
        )
        return BisectVerdict(
            kind=kinds[len(leader)] if sure else "unsure",
            culprit=names if sure else (),
            confidence=probability,
            suspects=suspects,
            also=self._also(leader) if sure and len(leader) == 1 else (),
            rate=self.rate,
        )

    def _also(self, leader: Who) -> tuple[str, ...]:
        """Probable cures besides the leader."""
        of_leader = [h for h in self.alive if h.who == leader]
        total = sum(h.weight for h in of_leader)
        out = []
        for i, ingredient in enumerate(self.order):
            if i != leader[0]:
                share = sum(h.weight for h in of_leader if h.cures[0] >> i & 1) / total
                if share >= 0.9:
                    out.append(ingredient.name)
        return tuple(out)
