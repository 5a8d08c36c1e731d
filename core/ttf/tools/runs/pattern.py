"""Are many deaths tied to the optimizer boundary, to time, to memory, to mining, or to nothing?

Each test asks how likely so clear a pattern is if a process dies at any moment with the same
probability. All are exact and need the standard library only. Four looks find something by luck
more often than one, so the p values are corrected (Holm).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from ttf.text.numbers import duration
from ttf.tools.runs.deaths import Deaths, DeathSeen

# Stricter than the usual 0.05: at that, one in twenty folders without any pattern would be called
# tied, and somebody would search weeks for a cause that is none.
LEVEL: Final = 0.01
_HINT: Final = 0.05
LOOKS: Final = 4
# A cause that is tied to the boundary need not strike there each time.
_CLEAR: Final = 0.8
_MOST: Final = 400  # Deaths that a test takes, the last ones: exact sums cost their square.
_GRAIN: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Look:
    """One test. `p` is None if the deaths do not allow it; `says` is for people in any case."""

    name: str
    deaths: int  # That it could use.
    says: str
    p: float | None = None
    corrected: float | None = None
    needs: str = ""  # What it could have found with so few deaths.

    @property
    def tied(self) -> bool:
        return self.corrected is not None and self.corrected < LEVEL


@dataclass(frozen=True, kw_only=True)
class Pattern:
    deaths: int
    looks: tuple[Look, ...]
    remarks: tuple[str, ...] = field(default=())

    @property
    def tied_to(self) -> tuple[str, ...]:
        return tuple(look.name for look in self.looks if look.tied)


def pattern_of(seen: Deaths) -> Pattern:
    tests: tuple[Callable[[Deaths], Look], ...] = (_boundary, _time, _memory, _mining)
    looks = corrected([test(seen) for test in tests])
    return Pattern(
        deaths=len(seen.deaths), looks=tuple(looks), remarks=tuple(_remarks(seen, looks))
    )


def corrected(looks: Sequence[Look]) -> list[Look]:
    """With Holm's p values. A test that was not possible counts as looked at: whether it is depends
    on the deaths."""
    order = sorted((look for look in looks if look.p is not None), key=lambda look: look.p or 0.0)
    worst, by_name = 0.0, {}
    for rank, look in enumerate(order):
        assert look.p is not None
        worst = max(worst, min(1.0, (LOOKS - rank) * look.p))
        by_name[look.name] = worst
    return [replace(look, corrected=by_name.get(look.name)) for look in looks]


# --- the four looks -----------------------------------------------------------------------------


def _boundary(seen: Deaths) -> Look:
    """The first and last micro-batch and the weight update, against their share of the time."""
    usable = [d for d in seen.deaths[-_MOST:] if d.at_boundary is not None]
    once = list({d.spot: d for d in usable}.values())
    shares = [d.boundary_share or 0.0 for d in once]
    hits = sum(d.at_boundary is True for d in once)
    if not once:
        return Look(name="boundary", deaths=0, says="no death has a known micro-batch of several")
    share = sum(shares) / len(shares)
    says = (
        f"{hits} of {len(once)} deaths in the first or last micro-batch or the weight update, "
        f"which take {share:.0%} of the time"
    )
    if len(once) < len(usable):
        says += f"; {len(usable) - len(once)} more at a place counted already"
    p = at_least(hits, shares)
    return Look(
        name="boundary", deaths=len(once), says=says, p=p, needs=boundary_power(len(once), share)
    )


def _time(seen: Deaths) -> Look:
    """Ages against a constant risk, by the time that all processes lived beyond each of them."""
    ages = [d.at_risk_s for d in seen.deaths[-_MOST:] if d.at_risk_s is not None]
    lives = [*ages, *seen.survived_s]
    if len(ages) < 2:
        return Look(name="time", deaths=len(ages), says="fewer than two deaths have a known age")
    beyond = shares_beyond(ages, lives)
    late, early = _low(beyond), _high(beyond, alone=not seen.survived_s)
    others = len(seen.survived_s)
    survivors = f", beside {others} process{'es' * (others > 1)} that did not die" * bool(others)
    says = f"lived from {_seconds(min(ages))} to {_seconds(max(ages))}{survivors}: "
    p = min(1.0, 2 * min(late, early))
    way = "the longer it lives, the likelier it dies" if late < early else "early deaths are many"
    says += way if p < _HINT else "as with a constant risk"
    needs = _needs(len(ages), len(ages) - 1, "of the same age")
    return Look(name="time", deaths=len(ages), says=says, p=p, needs=needs)


def _memory(seen: Deaths) -> Look:
    """Memory at death against the memory of all moments that were sampled."""
    held = [d.memory_bytes for d in seen.deaths[-_MOST:] if d.memory_bytes is not None]
    if len(held) < 2 or len(seen.memory_bytes) < 2:
        return Look(name="memory", deaths=len(held), says="memory is known of fewer than two")
    every = sorted([*seen.memory_bytes, *held])
    above = [(len(every) - bisect_left(every, m)) / len(every) for m in held]
    # Its own death tops a curve that only grows: each death counts once among the moments.
    says = (
        f"at death more memory than at {1 - sum(above) / len(above):.0%} of "
        f"{len(seen.memory_bytes):,} moments (by chance 50%)"
    )
    p = _low(above)
    needs = _needs(len(held), len(held) - 1, "at the highest memory")
    return Look(name="memory", deaths=len(held), says=says, p=p, needs=needs)


def _mining(seen: Deaths) -> Look:
    """Deaths soon after a mining, against any step until the next."""
    usable = [d for d in seen.deaths[-_MOST:] if d.since_mining_share is not None]
    if not usable:
        return Look(name="mining", deaths=0, says="no death in a step with mined negatives")
    # Under a constant risk fewer processes reach the end of a round than its beginning.
    ages = [d.at_risk_s for d in seen.deaths if d.at_risk_s is not None]
    lived_s = math.fsum([*ages, *seen.survived_s])
    risk = len(ages) / lived_s if lived_s > 0 else 0.0
    shares = [_of_round(d, risk) for d in usable]
    mean = sum(shares) / len(shares)
    says = f"on average {mean:.0%} of the way from a mining to the next (by chance 50%)"
    p = irwin_hall(sum(shares), len(shares))
    needs = _needs(len(usable), len(usable), "at the first of many steps after a mining")
    return Look(name="mining", deaths=len(usable), says=says, p=p, needs=needs)


def _of_round(death: DeathSeen, risk: float) -> float:
    """The share of all deaths in such a round that would come until then; `risk` is per second."""
    share = death.since_mining_share or 0.0
    done, of, since_s = death.since_mining_steps, death.mined_for_steps, death.since_mining_s
    if not (done and of and since_s and since_s > 0 and risk > 0):
        return share
    risked = min(risk * since_s / done * of, 50.0)
    if not risked:  # too small for a float
        return share
    return math.expm1(-risked * share) / math.expm1(-risked)


# --- exact probabilities --------------------------------------------------------------------------


def at_least(hits: int, chances: Sequence[float]) -> float:
    """P(at least so many of independent events with these chances)."""
    exactly = [1.0]
    for chance in chances:
        before = [*exactly, 0.0]
        exactly = [
            q * (1 - chance) + (before[i - 1] * chance if i else 0.0) for i, q in enumerate(before)
        ]
    return min(1.0, math.fsum(exactly[hits:]))


def irwin_hall(total: float, count: int) -> float:
    """P(the sum of `count` uniform numbers in 0..1 is at most `total`).

    >>> irwin_hall(1.0, 2), irwin_hall(0.5, 1), irwin_hall(0.0, 0), round(irwin_hall(0.5, 3), 4)
    (0.5, 0.5, 1.0, 0.0208)
    """
    if total >= count:
        return 1.0
    if total <= 0:
        return 0.0
    # Fractions: the terms are large and of alternating sign. Rounded up, to the safe side.
    x = Fraction(math.ceil(total * _GRAIN), _GRAIN)
    terms = ((-1) ** j * math.comb(count, j) * (x - j) ** count for j in range(math.floor(x) + 1))
    return min(1.0, float(sum(terms, Fraction(0)) / math.factorial(count)))


def shares_beyond(ages: Sequence[float], lives: Sequence[float]) -> list[float]:
    """For each age the share of all time lived that lies beyond it."""
    total = math.fsum(lives)
    if total <= 0:
        return [1.0] * len(ages)
    return [math.fsum(max(0.0, life - age) for life in lives) / total for age in ages]


def _low(shares: Sequence[float]) -> float:
    # Under a constant risk the shares are uniform; that of the oldest process is 0 in any case if
    # none survived it. Left out always: the safe side.
    return irwin_hall(sum(shares), len(shares) - 1)


def _high(shares: Sequence[float], *, alone: bool) -> float:
    count = len(shares) - alone
    return irwin_hall(count - sum(shares), count)


# --- what so few deaths can tell ------------------------------------------------------------------


def boundary_power(count: int, share: float) -> str:
    enough = _fewest_hits(count, share)
    if enough is None:
        best = at_least(count, [share] * count)
        more = "no number of deaths would do"
        if share < 1:
            needed = math.floor(math.log(LEVEL / LOOKS) / math.log(share)) + 1
            more = f"{needed:,} deaths could show one"
        return (
            f"with {count}, even {count} of {count} at the boundary prove nothing (p = {best:.2g}, "
            f"corrected {min(1.0, LOOKS * best):.2g}); {more}"
        )
    power = at_least(enough, [_CLEAR] * count)
    return (
        f"{enough} of {count} at the boundary would show it; a cause that strikes there in "
        f"{_CLEAR:.0%} of its deaths is found with a probability of {power:.0%}"
    )


def _fewest_hits(count: int, share: float) -> int | None:
    chances = [share] * count
    return next((k for k in range(count + 1) if LOOKS * at_least(k, chances) < LEVEL), None)


def _needs(count: int, free: int, where: str) -> str:
    # How far from the extreme the average may be: 0 there, about half by chance.
    low, high = 0.0, 0.5 * free
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if LOOKS * irwin_hall(middle, free) < LEVEL else (low, middle)
    return f"would show deaths {where}; on average at most {low / count:.0%} away from it"


def _remarks(seen: Deaths, looks: Sequence[Look]) -> list[str]:
    tied = {look.name for look in looks if look.tied}
    found = [
        f"A hint, but no proof: {look.name} (corrected p = {look.corrected:.2g}). More deaths decide."
        for look in looks
        if look.corrected is not None and LEVEL <= look.corrected < _HINT
    ]
    if {"time", "memory"} <= tied:
        found.append(
            "Memory that grows with age is both old and high at every death: these deaths do not "
            "tell time and memory apart."
        )
    if repeated := _repeated(seen.deaths):
        found.append(
            f"{repeated[1]} deaths are at the same place, {repeated[0]}: this looks like the data "
            "or the state of that step, not like a matter of chance."
        )
    return found


def _repeated(deaths: Sequence[DeathSeen]) -> tuple[str, int] | None:
    places: dict[str, int] = {}
    for death in deaths:
        if death.step is not None and death.micro_batch is not None:
            place = f"step {death.step + 1}, micro-batch {death.micro_batch}"
            places[place] = places.get(place, 0) + 1
    most = max(places.items(), key=lambda item: item[1], default=("", 0))
    return most if most[1] >= 3 else None


def _seconds(seconds: float) -> str:
    return duration(max(0.0, seconds))
