"""The batches that are announced, in order: which one uses a row next?"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

NEVER: Final = np.iinfo(np.int64).max  # Not as far as is announced.


class LookAhead:
    """Batches have numbers from 0. For every row of a batch it keeps the number of the next batch
    with that row."""

    def __init__(self, rows: int) -> None:
        # Where a row was announced last, in the order of all announcements, plus one.
        self._last = np.zeros(rows, np.int64)
        self._next = np.full(1024, NEVER)  # A ring.
        self._begin = self._end = 0  # Of what is waiting, in the order of all announcements.
        self._waiting: deque[NDArray[np.int64]] = deque()
        self.now = 0  # The batch that comes next.

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def announced(self) -> int:
        """How many batches there were and are."""
        return self.now + len(self._waiting)

    def batch(self, number: int) -> NDArray[np.int64]:
        return self._waiting[number - self.now]

    def announce(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The distinct rows of one more batch. Returns those that no waiting batch has."""
        number = self.announced
        self._make_room(len(ids))
        before = self._last[ids] - 1
        waiting = before >= self._begin
        self._next[before[waiting] % len(self._next)] = number
        places = self._end + np.arange(len(ids))
        self._next[places % len(self._next)] = NEVER
        self._last[ids] = places + 1
        self._end += len(ids)
        self._waiting.append(ids)
        return ids[~waiting]

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The next batch is used: its rows, and when each is used again."""
        ids = self._waiting.popleft()
        places = self._begin + np.arange(len(ids))
        self._begin += len(ids)
        self.now += 1
        return ids, self._next[places % len(self._next)]

    def forget(self) -> None:
        """Nothing is announced any more."""
        self.now += len(self._waiting)
        self._begin = self._end
        self._waiting.clear()

    def _make_room(self, more: int) -> None:
        waiting = self._end - self._begin
        if waiting + more <= len(self._next):
            return
        places = self._begin + np.arange(waiting)
        size = len(self._next)
        while size < waiting + more:
            size *= 2
        bigger = np.full(size, NEVER)
        bigger[places % size] = self._next[places % len(self._next)]
        self._next = bigger
