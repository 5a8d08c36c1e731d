"""Long work between two steps, shared by the processes of a run: each does a part, all get the whole.

Parts are cut where one process cuts its work, so the whole has the bits of one process. Whoever is
done early waits in `World.tell`, which has no limit and gives signs of life; a collective only moves
what all of them have. Alone, a process does everything and waits for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.errors import StorageError, storage_error
from ttf.world.world import World

T = TypeVar("T")
Beat = Callable[[], None]
# Of one collective, which must not last as long as a step: half a second on 1 Gb/s.
_PIECE_BYTES: Final = 32 << 20


class OthersFailed(StorageError):
    """The disk of another process of the run refused its part. That one decides how long it tries."""


class Team:
    """Every process of the run makes the same calls in the same order."""

    def __init__(self, world: World, beat: Beat = lambda: None) -> None:
        """`beat` is called while this process waits for others."""
        self._world = world
        self._beat = beat
        self.alone = world.size == 1

    def own(self, count: int, block: int) -> range:
        """This process's part of `count` things that are cut at multiples of `block`."""
        return self._world.own_part(count, block)

    def parts(self, count: int, block: int) -> list[range]:
        """Those of all processes."""
        return [self._world.part_of(rank, count, block) for rank in range(self._world.size)]

    def mine(self, of_all: Sequence[T]) -> T:
        """Of one thing for each process, that of this one."""
        return of_all[self._world.rank]

    def tell(self, name: str, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """What each process says, in their order."""
        return self._world.tell(name, document, self._beat)

    def all(self, name: str, yes: bool) -> bool:
        """True if all say so."""
        return all(bool(told["yes"]) for told in self.tell(name, {"yes": yes}))

    def stage(self, name: str, work: Callable[[], T]) -> T:
        """Does work that needs nobody, and waits until all have done theirs. Raises StorageError, or
        OthersFailed on the others, if a disk refused it: all begin again together."""
        if self.alone:
            return work()
        found, problem = None, None
        try:
            found = work()
        except StorageError as error:
            problem = error
        except OSError as error:
            problem = storage_error(error, name)
        told = self.tell(name, {"problem": str(problem or "")})
        if problem is not None:
            raise problem
        for other in told:
            if other["problem"]:
                raise OthersFailed(f"Another process of this run waits: {other['problem']}")
        return found  # type: ignore[return-value]

    def whole(
        self, name: str, count: int, block: int, work: Callable[[range], NDArray[Any]]
    ) -> NDArray[Any]:
        """`count` rows, of which each process makes its part with `work`, cut at multiples of
        `block`."""
        own = self.own(count, block)
        if self.alone or not count:
            return work(own)
        mine = self.stage(name, lambda: work(own) if own else None)
        # Who has no part does not know what a row is.
        form = {} if mine is None else {"row": list(mine.shape[1:]), "dtype": mine.dtype.str}
        known = next(told for told in self.tell(f"{name}: rows", form) if told)
        row, dtype = tuple(known["row"]), np.dtype(known["dtype"])
        out = np.empty((count, *row), dtype)
        here = np.empty((0, *row), dtype) if mine is None else mine
        for start, rows in self.pieces(
            self.parts(count, block), lambda a, b: here[a:b], row, dtype
        ):
            out[start : start + len(rows)] = rows
        return out

    def together(self, name: str, own: NDArray[Any]) -> NDArray[Any]:
        """The rows of all processes, each any number of them."""
        if self.alone:
            return own
        counts = [int(told["rows"]) for told in self.tell(name, {"rows": len(own)})]
        if not any(counts):
            return own
        found: NDArray[Any] = self._world.joined(torch.from_numpy(own), counts).numpy()
        return found

    def added(self, name: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of the processes' counts: integers, so in any order."""
        if self.alone:
            return counts
        self.stage(name, lambda: None)
        found = self._world.joined(torch.from_numpy(counts[None]), [1] * self._world.size)
        summed: NDArray[np.int64] = found.sum(0).numpy()
        return summed

    def pieces(
        self,
        parts: Sequence[range],
        read: Callable[[int, int], NDArray[Any]],
        row: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows of all parts, a few at a time: the first one's number, and the rows. `read` gives
        rows of the own part, counted from its first. To be exhausted; raise nothing on the way."""
        bytes_of_row = max(1, math.prod(row) * dtype.itemsize)
        at_once = max(1, _PIECE_BYTES // (bytes_of_row * len(parts)))
        mine = parts[self._world.rank]
        for start in range(0, max(map(len, parts)), at_once):
            counts = [max(0, min(at_once, len(part) - start)) for part in parts]
            stop = min(start + at_once, len(mine))
            own = np.array(read(start, stop)) if start < stop else np.empty((0, *row), dtype)
            assert own.shape == (max(0, stop - start), *row) and own.dtype == dtype
            found = own
            if not self.alone:
                found = self._world.joined(torch.from_numpy(own), counts).numpy()
            begin = 0
            for part, count in zip(parts, counts, strict=True):
                if count:
                    yield part.start + start, found[begin : begin + count]
                begin += count


ALONE: Final = Team(World())
