"""A run's processes as one of them sees them. `World` is a run of one process; `ttf.world.gloo` has
the one that talks to others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from ttf.rundir.world_place import WorldPlace
from ttf.world.tree import Fold, shards_of
from ttf.world.word import Agreed, Word, agreed


def plus(left: Tensor, right: Tensor) -> Tensor:
    return left.add_(right)


class World:
    """A run of one process: nothing is sent, and all sums are its own."""

    rank = 0
    size = 1

    def __init__(self, shards: int = 1) -> None:
        self.shards = shards
        self.place = WorldPlace(rank=0, size=1)

    @property
    def own_shards(self) -> range:
        return shards_of(self.rank, self.size, self.shards)

    def own_part(self, count: int, block: int) -> range:
        """This rank's share of `count` things that must stay together in blocks; may be empty."""
        return self.part_of(self.rank, count, block)

    def part_of(self, rank: int, count: int, block: int) -> range:
        blocks = shards_of(rank, self.size, -(-count // block))
        return range(min(count, blocks.start * block), min(count, blocks.stop * block))

    def total(self, fold: Fold[Tensor]) -> Tensor:
        """The sum over all shards of the vectors that each rank has folded; equal on all ranks."""
        return fold.root(self.shards)

    def joined(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, in the order of ranks, which have `counts` of them. Only where no
        rank comes much later than the others: see `meet`."""
        return rows

    def agree(self, word: Word) -> Agreed:
        """What is done between two steps; the same on all ranks."""
        return agreed([word])

    def meet(self, beat: Callable[[], None]) -> None:
        """Waits for all others, however long they need. `beat` gives signs of life and may raise."""

    def tell(
        self, name: str, document: Mapping[str, Any], beat: Callable[[], None] = lambda: None
    ) -> list[Mapping[str, Any]]:
        """What each rank says under a name, JSON; by rank. Waits like `meet`."""
        return [document]

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """Overwrites the tensor with that of the rank `source`."""

    def close(self) -> None:
        """Call it when the run is over for all: it waits a moment for those who come later."""
