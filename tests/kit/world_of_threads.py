"""A world whose processes are threads of this one: for what all of them compute together."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from ttf.training.team import Team
from ttf.world.world import World

T = TypeVar("T")
_WITHIN_S = 20.0


class _Board:
    """Where each puts something, and takes what all have put."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self._values: list[Any] = [None] * size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self.barrier.wait(_WITHIN_S)
        found = list(self._values)
        self.barrier.wait(_WITHIN_S)
        return found


class WorldOfThreads(World):
    def __init__(self, rank: int, size: int, board: _Board) -> None:
        super().__init__(shards=size)
        self.rank, self.size = rank, size
        self._board = board

    def joined(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        assert len(rows) == counts[self.rank]
        return torch.cat(self._board.exchange(self.rank, rows))

    def tell(
        self, name: str, document: Mapping[str, Any], beat: Callable[[], None] = lambda: None
    ) -> list[Mapping[str, Any]]:
        beat()
        told = self._board.exchange(self.rank, (name, json.dumps(dict(document))))
        assert {other for other, _ in told} == {name}, "they are not at the same place"
        return [json.loads(text) for _, text in told]


def together(size: int, work: Callable[[Team], T]) -> list[T]:
    """What each of so many processes returns."""
    board = _Board(size)

    def one(rank: int) -> T:
        try:
            return work(Team(WorldOfThreads(rank, size, board)))
        except BaseException:
            board.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))
