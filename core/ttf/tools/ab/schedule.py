"""Which repeat comes when: pure, the same in every process, and unchanged where repeats are added.

A block holds one repeat of every arm, all with the block's seed. Its order is random, and that of
the next block is its reverse: over both, every arm has the same mean position, so that a machine
that becomes slower, or faster, does so to all arms alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class Cell(NamedTuple):
    """One repeat."""

    block: int
    """1 first."""
    position: int
    """In its block, 0 first."""
    arm: str
    seed: int


def schedule(arms: Sequence[str], repeats: int, seed: int) -> list[Cell]:
    """All cells in the order they are run; block b has the seed `seed` + b."""
    return [
        Cell(block, position, arm, seed + block)
        for block in range(1, repeats + 1)
        for position, arm in enumerate(_order(arms, block, seed))
    ]


def _order(arms: Sequence[str], block: int, seed: int) -> list[str]:
    """From hashes: no version of Python or of a library may change it in the middle of a study."""
    pair, second = divmod(block - 1, 2)

    def drawn(place: int) -> bytes:
        return hashlib.sha256(f"{seed} {pair} {place}".encode()).digest()

    order = [arms[place] for place in sorted(range(len(arms)), key=drawn)]
    return order[::-1] if second else order


def next_wave(
    cells: Iterable[Cell], done: Collection[tuple[int, str]], arms: int, parallel: int
) -> list[Cell]:
    """What is run next and to its end before anything else begins: what is missing of the first
    unfinished block, or of as many as fit beside one another, so that pairs meet the same load.

    `done` holds (block, arm). Empty: nothing is left.
    """
    missing = [cell for cell in cells if (cell.block, cell.arm) not in done]
    blocks = list(dict.fromkeys(cell.block for cell in missing))
    wave = set(blocks[: max(1, parallel // arms)])
    return [cell for cell in missing if cell.block in wave]
