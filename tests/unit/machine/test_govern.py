"""What is decided about memory in mid-run: curves are played to the pure decision."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from ttf.machine.memory.govern import (
    COOL_DOWN_S,
    GROW_AFTER_S,
    GROW_BELOW,
    MACHINE_STALLED_FROM,
    SHRINK_AT,
    SHRINK_TO,
    Decision,
    Look,
    Size,
    State,
    Use,
    govern,
)

MB = 10**6
LIMIT = 1000 * MB
CACHE = Size(name="cache", now=400 * MB, least=50 * MB, most=400 * MB)
OTHER = Size(name="other", now=100 * MB, least=0, most=100 * MB)


def look(held: int, now: float = 0.0, stalled: float | None = None, limit: int = LIMIT) -> Look:
    return Look(now=now, uses=(Use(held=held, limit=limit, source="cgroup"),), stalled=stalled)


def decided(held: int, **more: float | None) -> Decision | None:
    return govern(State(), look(held, **more), [CACHE, OTHER])[1]  # type: ignore[arg-type]


class Played:
    """A run whose caches hold what they may, beside memory of others that changes with time."""

    def __init__(self, others: Callable[[float], int], limit: Callable[[float], int]) -> None:
        self.sizes = {"cache": CACHE.now}
        self.held: list[int] = []
        self.shares: list[float] = []
        self.acts: list[tuple[float, str]] = []
        self._others, self._limit = others, limit
        self._state = State()

    def play(self, seconds: float) -> Played:
        actual = self.sizes["cache"]
        for tick in range(int(4 * seconds)):
            now = tick / 4
            # What is given back leaves at once; what may grow is filled within a few looks.
            actual = min(self.sizes["cache"], actual + 20 * MB)
            held, limit = self._others(now) + actual, self._limit(now)
            self.held.append(held)
            self.shares.append(held / limit)
            lever = Size(name="cache", now=self.sizes["cache"], least=CACHE.least, most=CACHE.most)
            found = look(held, now, limit=limit)
            self._state, decision = govern(self._state, found, [lever])
            if decision is not None:
                self.acts.append((now, decision.act))
                self.sizes |= dict(decision.sizes)
        return self

    def count(self, act: str) -> int:
        return sum(done == act for _, done in self.acts)


def test_below_the_limit_nothing_happens() -> None:
    assert decided(int(0.7 * LIMIT)) is None


def test_above_it_the_first_lever_gives_what_is_needed_and_no_more() -> None:
    found = decided(850 * MB)
    assert found is not None
    assert found.act == "shrink"
    assert found.sizes == (("cache", 300 * MB),)


def test_the_next_lever_follows_where_one_is_not_enough() -> None:
    found = decided(1150 * MB)
    assert found is not None
    assert dict(found.sizes) == {"cache": 50 * MB, "other": 50 * MB}


def test_stalls_count_only_with_a_large_share_held() -> None:
    assert decided(int(0.5 * LIMIT), stalled=0.5) is None
    found = decided(int(0.7 * LIMIT), stalled=0.5)
    assert found is not None
    assert found.sizes == (("cache", 300 * MB),)
    assert "50% of the time waiting for memory" in found.why


def test_stalls_of_the_whole_machine_may_be_those_of_others() -> None:
    """A control group that thrashes beside us must not make our caches shrink and grow."""
    for share, acts in ((0.62, False), (0.70, False), (0.76, True)):
        use = Use(held=int(share * LIMIT), limit=LIMIT, source="cgroup")
        found = Look(now=0.0, uses=(use,), stalled=0.5, stalls_of_machine=True)
        assert (govern(State(), found, [CACHE])[1] is not None) is acts
    assert GROW_BELOW + (SHRINK_TO - GROW_BELOW) / 2 < MACHINE_STALLED_FROM, "growing ends below"


def test_without_stall_information_what_is_held_decides() -> None:
    assert decided(850 * MB, stalled=None) == decided(850 * MB, stalled=0.0)


def test_the_nearest_of_several_limits_decides() -> None:
    uses = (Use(held=100, limit=10**9, source="far"), Use(held=85, limit=100, source="near"))
    found = govern(State(), Look(now=0.0, uses=uses), [Size(name="c", now=50, least=0, most=50)])[1]
    assert found is not None
    assert found.why == "85% of near"


def test_what_a_cache_may_hold_and_does_not_yet_is_no_room_and_frees_nothing() -> None:
    """A queue that fills slowly was let grow again and again, until all of it came at once."""
    filling = Size(name="cache", now=300 * MB, least=0, most=400 * MB, used=100 * MB)
    grown = govern(State(), look(400 * MB), [filling])[1]
    assert grown is not None
    assert dict(grown.sizes) == {"cache": 375 * MB}  # half of 750 - 400 - 200
    shrunk = govern(State(), look(830 * MB), [filling])[1]
    assert shrunk is not None
    assert dict(shrunk.sizes) == {"cache": 20 * MB}, "what is held, less what is needed"


def test_it_waits_for_what_was_given_back() -> None:
    state, _ = govern(State(), look(850 * MB), [CACHE])
    assert govern(state, look(850 * MB, COOL_DOWN_S / 2), [CACHE])[1] is None
    assert govern(state, look(850 * MB, COOL_DOWN_S), [CACHE])[1] is not None
    assert govern(state, look(970 * MB, COOL_DOWN_S / 2), [CACHE])[1] is not None, "urgent"


def test_that_nothing_is_left_is_said_once() -> None:
    empty = [Size(name="cache", now=50 * MB, least=50 * MB, most=400 * MB)]
    state, said = govern(State(), look(900 * MB), empty)
    assert said is not None
    assert said.act == "short"
    assert govern(state, look(910 * MB, 60.0), empty)[1] is None
    state, _ = govern(state, look(500 * MB, 90.0), [])
    again = govern(state, look(900 * MB, 120.0), empty)[1]
    assert again is not None, "it was enough in between"


def test_a_hog_comes_and_goes_and_the_caches_grow_back_without_oscillation() -> None:
    def hog(now: float) -> int:
        return 220 * MB + (min(380, int(60 * (now - 10))) * MB if 10 <= now < 60 else 0)

    run = Played(hog, lambda _: LIMIT).play(240)
    assert max(run.shares) < 0.95
    assert run.count("shrink") <= 5
    assert run.sizes["cache"] == CACHE.most
    grown = [at for at, act in run.acts if act == "grow"]
    assert min(grown) >= 60, "not while the hog is there"
    assert not [at for at, act in run.acts if act == "shrink" and at > 60]


def test_a_limit_cut_by_a_third_is_obeyed_and_a_raised_one_is_used() -> None:
    run = Played(lambda _: 220 * MB, lambda now: LIMIT * 2 // 3 if 20 <= now < 100 else LIMIT)
    run.play(60)
    assert run.shares[-1] <= SHRINK_AT
    assert run.count("grow") <= 2
    whole = Played(lambda _: 220 * MB, lambda now: LIMIT * 2 // 3 if 20 <= now < 100 else LIMIT)
    whole.play(300)
    assert whole.sizes["cache"] == CACHE.most


def test_each_time_that_growing_was_too_early_it_waits_longer() -> None:
    # Somebody who takes the room whenever it is there, and leaves it again.
    run = Played(lambda now: (300 + 400 * (int(now) % 60 < 20)) * MB, lambda _: LIMIT).play(3600)
    hours = [sum(a <= at < a + 600 for at, act in run.acts if act == "grow") for a in (0, 3000)]
    assert hours[1] < hours[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 550), min_size=2, max_size=40),
    st.lists(st.integers(600, 1400), min_size=1, max_size=4),
)
def test_growing_alone_never_leads_to_shrinking(others: list[int], limits: list[int]) -> None:
    """With memory of others that holds still, there is at most one phase of each kind."""

    def still(now: float) -> int:
        return others[min(len(others) - 1, int(now // 120))] * MB

    run = Played(still, lambda now: limits[min(len(limits) - 1, int(now // 500))] * MB)
    run.play(600)
    changes = [t for t in range(0, 600, 120)] + [t for t in range(0, 600, 500)]
    for at, act in run.acts:
        if act == "shrink":  # only just after somebody else, or the limit, moved
            since = min(at - t for t in changes if t <= at)
            assert since < GROW_AFTER_S


def test_what_is_left_after_shrinking_is_below_the_mark() -> None:
    for held in range(820, 1100, 20):
        found = decided(held * MB)
        assert found is not None
        freed = sum({"cache": CACHE.now, "other": OTHER.now}[n] - b for n, b in found.sizes)
        assert held * MB - freed <= SHRINK_TO * LIMIT or freed == 450 * MB
