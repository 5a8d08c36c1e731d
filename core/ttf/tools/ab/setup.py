"""What all repeats of a study share, study.json; and which repeat comes when.

The schedule is pure, the same in every process, and unchanged where repeats are added. A block
holds one repeat of every arm, all with the block's seed. Its order is random, and that of the next
block is its reverse: over both, every arm has the same mean position, so that a machine that
becomes slower, or faster, does so to all arms alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A configuration that is compared with others."""

    name: str
    toml: str
    toml_sha256: str
    sets: tuple[str, ...] = ()
    """Of this arm alone, as `--set` takes them."""
    evaluate_every: int | None = None
    """Chosen by us; None: the arm's own configuration says so."""
    slug: str
    """Its name as a part of a folder's."""


@dataclass(frozen=True, kw_only=True)
class ABSetup:
    """Written to study.json; of it, only `repeats` may change later."""

    arms: tuple[Arm, ...]
    sets: tuple[str, ...] = ()
    """Of all arms."""
    cwd: str
    """What relative paths of `sets` are relative to."""
    repeats: int = 10
    steps: int | None = None
    """Optimizer steps of every repeat; None: as each arm says."""
    seed: int = 0
    hang_timeout_s: float | None = None
    sequential: bool = False
    alpha: float = 0.05
    power: float = 0.8
    margins: Mapping[str, float] = field(default_factory=dict)
    """By measure, where not its own."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    @property
    def cells(self) -> list[Cell]:
        return schedule(self.names, self.repeats, self.seed)

    @property
    def identity(self) -> object:
        return self

    @property
    def configs(self) -> Mapping[str, str]:
        return {arm.toml: arm.toml_sha256 for arm in self.arms}

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)
