"""SIEVE (NSDI 2024): which slots go when nobody knows the future.

Slots stand in the order in which they were filled. A hand goes from the oldest to the newest: a slot
that was used since the hand passed last stays, the next one goes. One pass of a scan through many
rows moves no used row, as it would with LRU.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 4096


class Sieve:
    def __init__(self, slots: int) -> None:
        self.used = np.zeros(slots, np.bool_)
        self._order = np.zeros(2 * slots, np.int64)  # As far as `_end`; -1: no slot.
        self._place = np.zeros(slots, np.int64)  # Of each slot in the order.
        self._hand = self._end = 0

    def add(self, slots: NDArray[np.int64]) -> None:
        """Slots that were just filled."""
        if self._end + len(slots) > len(self._order):
            self._close_ranks()
        places = self._end + np.arange(len(slots))
        self._order[places] = slots
        self._place[slots] = places
        self._end += len(slots)
        self.used[slots] = False

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._order[self._place[slots]] = -1
        self._place[slots] = -1

    def victims(self, count: int, may_go: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Up to so many slots, of those that may go."""
        found: list[NDArray[np.int64]] = []
        left, to_see = count, 2 * self._end
        while left > 0 and to_see > 0:
            if self._hand >= self._end:
                self._hand = 0
            stop = min(self._hand + max(_AT_ONCE, left), self._end)
            here = self._order[self._hand : stop]
            slots = here[here >= 0]
            open_to = slots[may_go[slots]]
            going = open_to[~self.used[open_to]]
            if len(going) > left:
                last = self._place[going[left - 1]] + 1
                open_to = open_to[self._place[open_to] < last]
                going, stop = going[:left], int(last)
            self.used[open_to] = False
            found.append(going)
            left -= len(going)
            to_see -= max(1, stop - self._hand)
            self._hand = stop
            self.remove(going)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _close_ranks(self) -> None:
        before_hand = int((self._order[: self._hand] >= 0).sum())
        order = self._order[: self._end]
        order = order[order >= 0]
        self._order[:] = -1
        self._order[: len(order)] = order
        self._place[order] = np.arange(len(order))
        self._hand, self._end = before_hand, len(order)
