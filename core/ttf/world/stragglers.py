"""Which rank do the others wait for? From the times that each tells in its words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from ttf.rundir.world_place import WorldPlace
from ttf.world.word import Word

_STEPS: Final = 64
_SLOWER: Final = 1.5
_LEAST_S: Final = 0.01  # A difference per step that nobody notices.


class Pace:
    """How long each rank computes; says who is slow, once until it has caught up."""

    def __init__(self, place: WorldPlace) -> None:
        self._place = place
        self._sums = [0.0] * place.size
        self._steps = 0
        self._told: set[int] = set()

    def look(self, words: Sequence[Word]) -> list[str]:
        """Messages, seldom: after the words of a step."""
        if len(words) < 2:
            return []
        self._sums = [total + word.compute_s for total, word in zip(self._sums, words, strict=True)]
        self._steps += 1
        if self._steps < _STEPS:
            return []
        each = [total / self._steps for total in self._sums]
        self._sums, self._steps = [0.0] * len(words), 0
        usual = median(each)
        slow = {
            rank
            for rank, seconds in enumerate(each)
            if seconds > _SLOWER * usual and seconds - usual > _LEAST_S
        }
        new, self._told = slow - self._told, slow
        return [
            f"{self._place.host_of(rank)} needs {each[rank] * 1000:,.0f} ms for its part of a step, "
            f"the others {usual * 1000:,.0f} ms: they wait for it. Is something else running there?"
            for rank in sorted(new)
        ]
