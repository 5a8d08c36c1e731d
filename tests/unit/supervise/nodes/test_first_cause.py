"""Among the ends of many processes, the one that the others follow from."""

from __future__ import annotations

from typing import get_args

from hypothesis import given, strategies as st

from ttf.supervise.rank_ends import CAUSES, TOGETHER, Kind, RankEnd, first_cause

ends = st.builds(
    RankEnd,
    rank=st.integers(0, 7),
    host=st.sampled_from(["", "a", "b"]),
    kind=st.sampled_from(get_args(Kind)),
    step=st.integers(0, 5),
    phase=st.sampled_from(["start", "forward", "exchange"]),
    at=st.floats(0, 10),
    name=st.sampled_from(["segfault", "killed", "peer-lost", "store-lost"]),
)


def end(rank: int, kind: Kind, *, step: int = 3, at: float = 1.0, name: str = "") -> RankEnd:
    return RankEnd(rank=rank, host="", kind=kind, step=step, at=at, name=name)


def test_a_death_is_the_cause_though_others_were_noticed_before_it() -> None:
    lost = [end(n, "lost", at=0.5, name="peer-lost") for n in range(3)]
    died = end(3, "died", at=0.9, name="segfault")
    assert first_cause([*lost, died]) is died


def test_of_two_deaths_the_earlier_step_counts_then_the_earlier_time() -> None:
    first = end(0, "died", step=4, at=2.0)
    assert first_cause([end(1, "died", step=5, at=1.0), first]) is first
    assert first_cause([end(1, "died", step=4, at=2.5), first]) is first


def test_who_lost_the_others_is_the_cause_only_where_nothing_else_is_found() -> None:
    lost = end(1, "lost", name="peer-lost")
    assert first_cause([end(0, "ended"), lost]) is lost
    assert first_cause([end(0, "finished"), lost]) is lost
    store = end(2, "lost", step=9, name="store-lost")
    assert first_cause([lost, store]) is store  # it says more


def test_all_that_ended_as_they_should_have_no_cause() -> None:
    assert first_cause([end(0, "finished"), end(1, "finished")]) is None
    assert first_cause([end(0, "left"), end(1, "left")]) is None


@given(st.lists(ends, min_size=1, max_size=8))
def test_a_consequence_is_never_the_cause_of_a_death(found: list[RankEnd]) -> None:
    cause = first_cause(found)
    if any(each.kind in CAUSES for each in found):
        assert cause is not None and cause.kind in CAUSES
        assert cause.step == min(each.step for each in found if each.kind in CAUSES)
    assert (cause is None) == all(each.kind in TOGETHER for each in found)


@given(st.lists(ends, min_size=1, max_size=6), st.randoms())
def test_the_order_in_which_ends_are_told_decides_nothing(
    found: list[RankEnd], random: object
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = first_cause(found), first_cause(shuffled)
    if one is not None and other is not None:
        assert (one.kind in CAUSES, one.step, one.at) == (
            other.kind in CAUSES,
            other.step,
            other.at,
        )
