"""Who does which block of a study: bookkeeping, without processes and connections.

All arms of a block run on one host, else a slow host would look like a slow arm. A block that is
begun again, elsewhere or by a new process, has a higher *attempt*; the samples of one attempt come
from one host, and those of earlier attempts are void.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell

SPOILED: Final = "its host was lost before the block was whole; the block is done again on one host"


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A block for one host; `spoiled` are samples of an earlier attempt, which are void before it is
    given out."""

    block: int
    attempt: int
    cells: tuple[Cell, ...]
    spoiled: tuple[Sample, ...] = ()


@dataclass
class _Held:
    holder: Hashable
    host: str
    attempt: int
    outstanding: set[str]  # arms that were given out and did not end yet


@dataclass
class Blocks:
    cells: Mapping[int, Sequence[Cell]]  # by block, in their order
    held: dict[int, _Held] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)  # the highest of each block
    broken: set[int] = field(default_factory=set)  # their host was lost

    @classmethod
    def of(cls, cells: Iterable[Cell], samples: Sequence[Sample]) -> Blocks:
        by_block: dict[int, list[Cell]] = {}
        for cell in cells:
            by_block.setdefault(cell.block, []).append(cell)
        made = cls(by_block)
        for sample in samples:
            made._note(sample.block, sample.attempt)
        return made

    def next_for(
        self, holder: Hashable, host: str, samples: Sequence[Sample], own: Sequence[str] = ()
    ) -> Ticket | None:
        """The next block for this node, or repeats of its block that were void. None: nothing is free.

        `own`: names under which this node's samples of an earlier process are known: their block
        goes on.
        """
        counted = _by_block(samples)
        for block, held in self.held.items():
            if held.holder == holder and not held.outstanding:
                return self._given(block, held.attempt, holder, host, counted.get(block, ()))
        free = [
            block
            for block, cells in self.cells.items()
            if block not in self.held and len(counted.get(block, ())) < len(cells)
        ]

        def waits(block: int) -> tuple[bool, int]:
            # Perhaps a host that was lost comes back: its block waits longest.
            begun_elsewhere = any(s.host not in own for s in counted.get(block, ()))
            return block in self.broken or begun_elsewhere, block

        for block in sorted(free, key=waits)[:1]:
            there = counted.get(block, [])
            if there and all(sample.host in own for sample in there) and _one_attempt(there):
                return self._given(block, there[0].attempt, holder, host, there)
            attempt = self.attempts.get(block, 0) + 1
            return replace(self._given(block, attempt, holder, host, ()), spoiled=tuple(there))
        return None

    def adopted(
        self, block: int, attempt: int, holder: Hashable, host: str, samples: Sequence[Sample]
    ) -> bool:
        """Whether a node that has come back, perhaps to a new node 0, goes on with its block."""
        if block not in self.cells or block in self.held:
            return False
        known = [s for s in samples if s.block == block]
        there = _counted(samples, block)
        spoiled = any(not s.counted and s.attempt == attempt and s.reason == SPOILED for s in known)
        of_others = any(s.attempt != attempt or s.host != host for s in there)
        whole = len(there) == len(self.cells[block])
        if spoiled or of_others or whole or attempt < self.attempts.get(block, 0):
            return False
        self._note(block, attempt)
        missing = {cell.arm for cell in self.cells[block]} - {s.arm for s in there}
        self.held[block] = _Held(holder, host, attempt, missing)
        self.broken.discard(block)
        return True

    def ended(self, block: int, arm: str, samples: Sequence[Sample]) -> None:
        """A repeat ended, and its sample, if it has one, is among `samples`."""
        held = self.held[block]
        held.outstanding.discard(arm)
        if len(_counted(samples, block)) == len(self.cells[block]):
            del self.held[block]

    def idle(self, holder: Hashable) -> None:
        """It asks for work: what it was given has ended, whatever was heard of it."""
        for held in self.held.values():
            if held.holder == holder:
                held.outstanding.clear()

    def lost(self, holder: Hashable) -> list[int]:
        """Its blocks are free again."""
        blocks = [block for block, held in self.held.items() if held.holder == holder]
        for block in blocks:
            del self.held[block]
            self.broken.add(block)
        return blocks

    def of_holder(self, holder: Hashable) -> dict[int, tuple[int, set[str]]]:
        """Its blocks, with the attempt and the outstanding arms."""
        return {
            block: (held.attempt, held.outstanding)
            for block, held in self.held.items()
            if held.holder == holder
        }

    def _given(
        self, block: int, attempt: int, holder: Hashable, host: str, there: Sequence[Sample]
    ) -> Ticket:
        done = {sample.arm for sample in there}
        cells = tuple(cell for cell in self.cells[block] if cell.arm not in done)
        self._note(block, attempt)
        self.held[block] = _Held(holder, host, attempt, {cell.arm for cell in cells})
        self.broken.discard(block)
        return Ticket(block=block, attempt=attempt, cells=cells)

    def _note(self, block: int, attempt: int) -> None:
        self.attempts[block] = max(attempt, self.attempts.get(block, 0))


def _counted(samples: Sequence[Sample], block: int) -> list[Sample]:
    return [sample for sample in samples if sample.block == block and sample.counted]


def _by_block(samples: Sequence[Sample]) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.counted:
            found.setdefault(sample.block, []).append(sample)
    return found


def _one_attempt(samples: Sequence[Sample]) -> bool:
    return len({sample.attempt for sample in samples}) == 1


def parts_of_others(
    cells: Sequence[Cell], samples: Sequence[Sample], own: Sequence[str]
) -> list[Sample]:
    """The samples of blocks that are not whole and were begun on other hosts."""
    arms = Counter(cell.block for cell in cells)
    found: list[Sample] = []
    for block, there in _by_block(samples).items():
        count = arms[block]
        if 0 < len(there) < count and any(sample.host not in own for sample in there):
            found += there
    return found
