"""What to do about the memory of a run in mid-run: a pure function of readings and sizes.

    held / limit   0.65            0.75            0.82                    (0.90 the supervisor)
    -----------------|---------------|---------------|-----------------------------------------
          grow       |    nothing    |    nothing    |  shrink down to 0.75

Growing takes at most half of the room up to 0.75, so it never leads to shrinking by itself. If it does
all the same (somebody else took the memory), the next growth waits twice as long. All times are part of
the readings: tests play curves to this function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

SHRINK_AT: Final = 0.82
SHRINK_TO: Final = 0.75
GROW_BELOW: Final = 0.65
# At once, whatever was done a moment ago: the kernel kills soon.
URGENT: Final = 0.93
# Share of the time that some task waited for memory. Alone it says nothing about us: a copy of a large
# file stalls others too. With this share of a limit held, it does. Stalls of the whole machine may be
# those of another control group: beside one that thrashed, caches shrank and grew four times at 0.60.
STALLED: Final = 0.10
STALLED_FROM: Final = 0.60
MACHINE_STALLED_FROM: Final = SHRINK_TO
STALLED_SHARE: Final = 0.10  # of the limit that is given back then
# What was made smaller is given back within some steps.
COOL_DOWN_S: Final = 3.0
GROW_AFTER_S: Final = 20.0
GROW_EVERY_S: Final = 5.0
LONGEST_WAIT_S: Final = 600.0
WORTH: Final = 4 << 20  # less is not worth a message

Act = Literal["shrink", "grow", "short"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """A lever as the decision sees it; in bytes."""

    name: str
    now: int  # what it may hold
    least: int
    most: int
    used: int | None = None  # what it holds; None: all that it may

    @property
    def held(self) -> int:
        return self.now if self.used is None else min(self.now, self.used)


@dataclass(frozen=True, kw_only=True)
class Use:
    """One limit and what is held against it."""

    held: int
    limit: int
    source: str

    @property
    def share(self) -> float:
        return self.held / max(1, self.limit)


@dataclass(frozen=True, kw_only=True)
class Look:
    now: float
    uses: tuple[Use, ...]  # not empty
    stalled: float | None = None
    stalls_of_machine: bool = False  # not only those of our control group

    @property
    def nearest(self) -> Use:
        return max(self.uses, key=lambda use: use.share)


@dataclass(frozen=True, kw_only=True)
class State:
    shrunk_at: float | None = None
    grown_at: float | None = None
    wait_s: float = GROW_AFTER_S
    short_said: bool = False


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`sizes`: the new bytes of each lever that changes; none: memory is short, and there is nothing
    left to make smaller."""

    act: Act
    why: str
    sizes: tuple[tuple[str, int], ...] = ()


def govern(state: State, look: Look, levers: Sequence[Size]) -> tuple[State, Decision | None]:
    """`levers` in the order in which they shrink; they grow in the opposite order."""
    need = _need(look)
    if need > 0:
        return _shrink(state, look, levers, need)
    if look.nearest.share < GROW_BELOW:
        return _grow(replace(state, short_said=False), look, levers)
    return state, None


def _need(look: Look) -> int:
    """Bytes that must be given back."""
    over = [int(u.held - SHRINK_TO * u.limit) for u in look.uses if u.share >= SHRINK_AT]
    nearest = look.nearest
    from_ = MACHINE_STALLED_FROM if look.stalls_of_machine else STALLED_FROM
    if _stalls(look) and nearest.share >= from_:
        over.append(int(STALLED_SHARE * nearest.limit))
    return max(over, default=0)


def _stalls(look: Look) -> bool:
    return look.stalled is not None and look.stalled >= STALLED


def _shrink(
    state: State, look: Look, levers: Sequence[Size], need: int
) -> tuple[State, Decision | None]:
    urgent = look.nearest.share >= URGENT
    pause = COOL_DOWN_S / 3 if urgent else COOL_DOWN_S
    if state.shrunk_at is not None and look.now - state.shrunk_at < pause:
        return state, None
    sizes, left = [], need
    for lever in levers:
        give = min(left, lever.held - lever.least)
        if give > 0:
            sizes.append((lever.name, lever.held - give))
            left -= give
    if need - left < min(need, WORTH):
        if state.short_said:
            return state, None
        return replace(state, short_said=True), Decision(act="short", why=_why(look))
    soon = state.grown_at is not None and look.now - state.grown_at < 3 * state.wait_s
    wait_s = min(LONGEST_WAIT_S, 2 * state.wait_s) if soon else state.wait_s
    state = replace(state, shrunk_at=look.now, grown_at=None, wait_s=wait_s)
    return state, Decision(act="shrink", why=_why(look), sizes=tuple(sizes))


def _grow(state: State, look: Look, levers: Sequence[Size]) -> tuple[State, Decision | None]:
    if state.shrunk_at is not None and look.now - state.shrunk_at < state.wait_s:
        return state, None
    if state.grown_at is not None and look.now - state.grown_at < GROW_EVERY_S:
        return state, None
    if look.stalled is not None and look.stalled >= STALLED / 2:
        return state, None
    coming = sum(lever.now - lever.held for lever in levers)  # of what it may hold already
    room = (min(int(SHRINK_TO * use.limit - use.held) for use in look.uses) - coming) // 2
    sizes, left = [], room
    for lever in reversed(levers):
        take = min(left, lever.most - lever.now)
        if take > 0:
            sizes.append((lever.name, lever.now + take))
            left -= take
    if room - left < WORTH:
        return state, None
    if state.grown_at is not None and look.now - state.grown_at > 10 * state.wait_s:
        state = replace(state, wait_s=GROW_AFTER_S)
    state = replace(state, grown_at=look.now)
    return state, Decision(act="grow", why=_why(look), sizes=tuple(sizes))


def _why(look: Look) -> str:
    use = look.nearest
    stalls = f", {look.stalled:.0%} of the time waiting for memory" if _stalls(look) else ""
    return f"{use.share:.0%} of {use.source}{stalls}"
