"""Some of many, evenly spread, without knowing how many there will be."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class EveryNth(Generic[T]):
    """Keeps every n-th of what is added, and always the last; n doubles when they become too many.

    >>> some = EveryNth[int](4)
    >>> for number in range(10):
    ...     some.add(number)
    >>> some.items
    [0, 4, 8, 9]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._stride = 1
        self._seen = 0
        self._kept: list[T] = []
        self._last: list[T] = []

    def add(self, item: T) -> None:
        self._last = [item]
        if self._seen % self._stride == 0:
            if len(self._kept) == self._most:
                self._kept = self._kept[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self._kept.append(item)
                self._last = []
        self._seen += 1

    @property
    def items(self) -> list[T]:
        """At most one more than asked for."""
        return [*self._kept, *self._last]
