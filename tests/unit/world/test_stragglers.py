"""A rank that the others wait for is named, once."""

from __future__ import annotations

from ttf.rundir.world_place import WorldPlace
from ttf.world.stragglers import Pace
from ttf.world.word import Word


def words(*seconds: float) -> list[Word]:
    return [Word(step=1, compute_s=each) for each in seconds]


def test_a_slow_rank_is_named_once_until_it_has_caught_up() -> None:
    pace = Pace(WorldPlace(rank=0, size=3, hosts=("a", "b", "c")))
    told = [text for _ in range(200) for text in pace.look(words(0.1, 0.1, 0.4))]
    assert len(told) == 1
    assert "rank 2 (c) needs 400 ms" in told[0] and "the others 100 ms" in told[0]
    assert [text for _ in range(64) for text in pace.look(words(0.1, 0.1, 0.1))] == []
    assert [text for _ in range(64) for text in pace.look(words(0.1, 0.1, 0.4))]


def test_small_differences_and_single_processes_are_no_news() -> None:
    pace = Pace(WorldPlace(rank=0, size=2))
    assert [text for _ in range(200) for text in pace.look(words(0.001, 0.004))] == []
    assert [text for _ in range(200) for text in pace.look(words(1.0))] == []
