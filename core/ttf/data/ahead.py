"""How much the gather thread reads ahead, and the queue that holds it."""

from __future__ import annotations

import itertools
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

USUAL: Final = 1
WHY: Final = "rows are copied faster than towers compute"


def usual(micro_batches: int) -> int:
    """For steps of so many micro-batches."""
    return min(2, micro_batches)


class Ahead:
    """The number of micro-batches that queues of this setting may hold; may change while they are
    used."""

    def __init__(self, items: int = USUAL) -> None:
        self._items = items
        self._queues: weakref.WeakSet[AheadQueue] = weakref.WeakSet()

    @property
    def items(self) -> int:
        return self._items

    @property
    def waiting(self) -> int:
        """How many are held now."""
        return sum(waiting.held for waiting in list(self._queues))

    def set(self, items: int) -> None:
        """From any thread. What lies beyond a smaller number is forgotten at once, and made again
        when it is asked for."""
        smaller = items < self._items
        self._items = max(1, items)
        for waiting in list(self._queues):
            waiting.look_again(smaller=smaller)

    def queue(self, give_back: Callable[[], None]) -> AheadQueue:
        """`give_back` is called, from any thread, when the number becomes smaller."""
        made = AheadQueue(self, give_back)
        self._queues.add(made)
        return made


@dataclass(slots=True)
class _Waiting:
    item: Any
    again: Callable[[], Any] | None


class AheadQueue:
    """One thread puts, one takes; both wait with a time limit, so that they notice an end."""

    def __init__(self, ahead: Ahead, give_back: Callable[[], None]) -> None:
        self._ahead = ahead
        self._give_back = give_back
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()

    def put(self, item: Any, timeout_s: float, again: Callable[[], Any] | None = None) -> bool:
        """False: no room within this time. `again` makes an equal item; the taking thread calls it
        if this one had to be forgotten. An item without it is small, and has always room."""
        with self._changed:
            if again is not None and not self._changed.wait_for(self._has_room, timeout_s):
                return False
            self._waiting.append(_Waiting(item, again))
            self._changed.notify_all()
            return True

    def get(self, timeout_s: float) -> Any:
        """Raises queue.Empty if nothing came within this time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, timeout_s):
                raise queue.Empty
            first = self._waiting.popleft()
            self._changed.notify_all()
        if first.item is None and first.again is not None:
            return first.again()
        return first.item

    @property
    def held(self) -> int:
        with self._changed:
            return sum(w.again is not None and w.item is not None for w in self._waiting)

    def clear(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def look_again(self, *, smaller: bool) -> None:
        """After a change of the number of items."""
        with self._changed:
            if smaller:
                self._give_back()
                large = (waiting for waiting in self._waiting if waiting.again is not None)
                for waiting in itertools.islice(large, self._ahead.items, None):
                    waiting.item = None
            self._changed.notify_all()

    def _has_room(self) -> bool:
        large = sum(waiting.again is not None for waiting in self._waiting)
        return large < self._ahead.items
