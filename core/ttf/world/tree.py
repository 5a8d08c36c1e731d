"""The order in which the gradients of a step are added: a binary tree over its shards.

A step of S samples is cut into V shards, a power of two. The sum of the shards' gradients is that of
a complete binary tree: (((0+1)+(2+3))+((4+5)+(6+7))). Floating-point addition is not associative, so
only a fixed order gives the same bits for any number of processes. A rank holds a contiguous range
of shards, adds up the largest whole subtrees of it, and sends those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ROOM_TO_GROW: Final = 8


@dataclass(frozen=True, order=True)
class Node:
    """A whole subtree: shards `start .. start + size`; `start` is a multiple of `size`."""

    start: int
    size: int

    @property
    def is_left(self) -> bool:
        return self.start % (2 * self.size) == 0


def shards_for(ranks: int) -> int:
    """How many shards a run gets that is started with so many ranks: room to grow, kept for ever.

    >>> shards_for(1), shards_for(3), shards_for(12)
    (8, 8, 16)
    """
    return max(ROOM_TO_GROW, 1 << (ranks - 1).bit_length())


def shards_of(rank: int, size: int, shards: int) -> range:
    """The contiguous shards of a rank; their numbers differ by one at most.

    >>> [len(shards_of(rank, 3, 8)) for rank in range(3)]
    [2, 3, 3]
    """
    return range(rank * shards // size, (rank + 1) * shards // size)


def nodes_of(shards: range) -> list[Node]:
    """The largest whole subtrees of a range of shards, ascending: what its `Fold` ends with.

    >>> nodes_of(range(2, 5))
    [Node(start=2, size=2), Node(start=4, size=1)]
    """
    fold = Fold[Node](lambda a, b: Node(a.start, 2 * a.size))
    for shard in shards:
        fold.add(Node(shard, 1), Node(shard, 1))
    return [node for node, _ in fold.nodes()]


class Fold(Generic[T]):
    """Adds values of adjacent subtrees as soon as both halves of a larger one are there.

    Keeps at most 2 log2(V) values. Add ascending; the left one is the first operand.
    """

    def __init__(self, plus: Callable[[T, T], T]) -> None:
        self._plus = plus
        self._nodes: list[tuple[Node, T]] = []

    def add(self, node: Node, value: T) -> None:
        while self._nodes:
            left, before = self._nodes[-1]
            if not (
                left.size == node.size and left.is_left and left.start + left.size == node.start
            ):
                break
            self._nodes.pop()
            node, value = Node(left.start, 2 * left.size), self._plus(before, value)
        self._nodes.append((node, value))

    def nodes(self) -> list[tuple[Node, T]]:
        return list(self._nodes)

    def root(self, shards: int) -> T:
        """The sum of all; ValueError if some are missing."""
        if [node for node, _ in self._nodes] != [Node(0, shards)]:
            raise ValueError(f"not all of {shards} shards: {[node for node, _ in self._nodes]}")
        return self._nodes[0][1]


def samples_of(shard: int, samples: int, shards: int) -> tuple[int, int]:
    """The samples `start..stop` of a step that are a shard's."""
    each = samples // shards
    return shard * each, (shard + 1) * each


def parts(count: int, shards: int) -> Iterator[tuple[int, int]]:
    """Contiguous parts of `count` things, one a shard; some are empty if there are few."""
    edges = [count * shard // shards for shard in range(shards + 1)]
    return itertools.pairwise(edges)
