"""Which row of a full cache goes? The policies that `ttf bench cache` compares, one row at a time."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

_NEVER: Final = 1 << 60


class Policy(Protocol):
    def request(self, row: int) -> tuple[bool, int | None]:
        """Whether the row was there, and the row that had to go for it."""


class Lru:
    """The least recently used row goes."""

    def __init__(self, size: int, trace: Sequence[int]) -> None:
        self._size = size
        self._rows: OrderedDict[int, None] = OrderedDict()

    def request(self, row: int) -> tuple[bool, int | None]:
        if row in self._rows:
            self._rows.move_to_end(row)
            return True, None
        gone = self._rows.popitem(last=False)[0] if len(self._rows) == self._size else None
        self._rows[row] = None
        return False, gone


class Lfu:
    """The least often used row goes; of equals, the oldest. It counts every row it ever saw."""

    def __init__(self, size: int, trace: Sequence[int]) -> None:
        self._size = size
        self._used: Counter[int] = Counter()
        self._heap: list[tuple[int, int, int]] = []
        self._rows: set[int] = set()
        self._clock = 0

    def request(self, row: int) -> tuple[bool, int | None]:
        self._used[row] += 1
        hit, gone = row in self._rows, None
        if not hit:
            if len(self._rows) == self._size:
                gone = self._least()
                self._rows.remove(gone)
            self._rows.add(row)
        self._clock += 1
        heapq.heappush(self._heap, (self._used[row], self._clock, row))
        return hit, gone

    def _least(self) -> int:
        while True:  # Most entries are of counts that have risen since.
            count, _, row = heapq.heappop(self._heap)
            if row in self._rows and self._used[row] == count:
                return row


class Clock:
    """A hand goes round; a row that was used since it passed stays. A new row takes the place of
    the one that goes."""

    def __init__(self, size: int, trace: Sequence[int]) -> None:
        self._size = size
        self._ring: list[int] = []
        self._used: dict[int, bool] = {}
        self._hand = 0

    def request(self, row: int) -> tuple[bool, int | None]:
        if row in self._used:
            self._used[row] = True
            return True, None
        self._used[row] = False
        if len(self._ring) < self._size:
            self._ring.append(row)
            return False, None
        while self._used[self._ring[self._hand]]:
            self._used[self._ring[self._hand]] = False
            self._hand = (self._hand + 1) % self._size
        gone = self._ring[self._hand]
        del self._used[gone]
        self._ring[self._hand] = row
        self._hand = (self._hand + 1) % self._size
        return False, gone


class SieveOneByOne:
    """As `Clock`, but a new row goes to the end of the line, and the hand stays where it is."""

    def __init__(self, size: int, trace: Sequence[int]) -> None:
        self._size = size
        self._used: dict[int, bool] = {}
        self._line: list[int | None] = []  # Oldest first; None: gone.
        self._hand = 0

    def request(self, row: int) -> tuple[bool, int | None]:
        if row in self._used:
            self._used[row] = True
            return True, None
        gone = self._go() if len(self._used) == self._size else None
        self._used[row] = False
        self._line.append(row)
        if len(self._line) > 4 * self._size:
            before = sum(other is not None for other in self._line[: self._hand])
            self._line, self._hand = [o for o in self._line if o is not None], before
        return False, gone

    def _go(self) -> int:
        while True:
            if self._hand >= len(self._line):
                self._hand = 0
            row = self._line[self._hand]
            if row is not None and not self._used[row]:
                break
            if row is not None:
                self._used[row] = False
            self._hand += 1
        self._line[self._hand] = None
        self._hand += 1
        del self._used[row]
        return row


class Belady:
    """Knows the future: the row that is needed farthest from now goes. No policy has fewer misses."""

    def __init__(self, size: int, trace: Sequence[int]) -> None:
        self._size = size
        self._next = [0] * len(trace)
        later: dict[int, int] = {}
        for at in range(len(trace) - 1, -1, -1):
            self._next[at] = later.get(trace[at], _NEVER)
            later[trace[at]] = at
        self._needed: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._at = -1

    def request(self, row: int) -> tuple[bool, int | None]:
        self._at += 1
        hit, gone = row in self._needed, None
        if not hit and len(self._needed) == self._size:
            while gone is None:
                needed, candidate = heapq.heappop(self._heap)
                if self._needed.get(candidate) == -needed:
                    gone = candidate
            del self._needed[gone]
        self._needed[row] = self._next[self._at]
        heapq.heappush(self._heap, (-self._next[self._at], row))
        return hit, gone


POLICIES: Final[Mapping[str, Callable[[int, Sequence[int]], Policy]]] = {
    "LRU": Lru,
    "LFU": Lfu,
    "CLOCK": Clock,
    "SIEVE": SieveOneByOne,
    "Belady": Belady,
}
