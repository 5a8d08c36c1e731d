"""The setup that all repeats of a study share (study.json), and the order of the repeats.

The schedule is pure, equal in every process, and unchanged if repeats are added. A block holds one
repeat of every arm, all with the block's seed. Its order is random; the next block has the reverse
order. So over both blocks every arm has the same mean position: a machine that becomes slower or
faster affects all arms equally.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from ttf.rundir.confined import is_plain_name
from ttf.tools.ab.sample import Sample

_MOST_ARMS: Final = 64
_MOST_REPEATS: Final = 10_000
_MOST_SEED: Final = 1 << 62
_MOST_STEPS: Final = 1 << 48


class Cell(NamedTuple):
    block: int  # from 1
    position: int  # in its block, from 0
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
    # From hashes: no version of Python or of a library may change the order in the middle of a
    # study.
    pair, second = divmod(block - 1, 2)

    def drawn(place: int) -> bytes:
        return hashlib.sha256(f"{seed} {pair} {place}".encode()).digest()

    order = [arms[place] for place in sorted(range(len(arms)), key=drawn)]
    return order[::-1] if second else order


def next_wave(
    cells: Iterable[Cell], done: Collection[tuple[int, str]], arms: int, parallel: int
) -> list[Cell]:
    """The next cells: the missing ones of the first unfinished block, or of as many as fit in
    `parallel`. All of them finish before others begin, so that pairs have the same load.

    `done` holds (block, arm). Empty: nothing is left.
    """
    missing = [cell for cell in cells if (cell.block, cell.arm) not in done]
    blocks = list(dict.fromkeys(cell.block for cell in missing))
    wave = set(blocks[: max(1, parallel // arms)])
    return [cell for cell in missing if cell.block in wave]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A configuration to compare."""

    name: str
    toml: str
    toml_sha256: str
    sets: tuple[str, ...] = ()  # of this arm only, as for `--set`
    evaluate_every: int | None = None  # our choice; None: the arm's own configuration decides
    slug: str  # the name in folder names
    words: tuple[str, ...] = ()  # of a command; then there is no `toml`


Better = Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class CommandTerms:
    """What commands share."""

    metric: str | None  # a regular expression with one group, of what they print
    better: Better
    run_limit_s: float | None  # a repeat that still works then is clean, and is ended
    pins: Mapping[str, str]  # variables of native libraries when the study began
    scripts: Mapping[str, str]  # SHA-256 of the files that the commands name, by path


@dataclass(frozen=True, kw_only=True)
class ABSetup:
    """Written to study.json; only `repeats` may change later."""

    arms: tuple[Arm, ...]
    sets: tuple[str, ...] = ()  # of all arms
    cwd: str  # base of relative paths in `sets`
    repeats: int = 10
    steps: int | None = None  # optimizer steps of every repeat; None: as each arm says
    seed: int = 0
    hang_timeout_s: float | None = None
    sequential: bool = False
    alpha: float = 0.05
    power: float = 0.8
    margins: Mapping[str, float] = field(default_factory=dict)  # by measure, if not the default
    commands: CommandTerms | None = None  # None: the arms are configurations
    data_seen: Mapping[str, str] = field(default_factory=dict)  # see `ttf.tools.studies.study`

    @property
    def problem(self) -> str:
        """Why this cannot be a setup; empty if it can. It may come from a study.json that this
        program did not write, and slugs become names of folders."""
        if not all(is_plain_name(arm.slug) for arm in self.arms):
            return "The slug of an arm must be a valid name of a folder."
        if any(bool(arm.words) != (self.commands is not None) for arm in self.arms):
            return "All arms of a study are commands, or none is."
        if len(set(self.names)) < len(self.arms) or not 2 <= len(self.arms) <= _MOST_ARMS:
            return f"A study has 2 to {_MOST_ARMS} arms of different names."
        if not 1 <= self.repeats <= _MOST_REPEATS:
            return f"A study has 1 to {_MOST_REPEATS:,} repeats."
        if not 0 <= self.seed < _MOST_SEED:
            return f"The seed of a study must be between 0 and {_MOST_SEED:,}."
        if not (0 < self.alpha < 1 and 0 < self.power < 1):
            return "alpha and power must be between 0 and 1."
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    @property
    def cells(self) -> list[Cell]:
        return schedule(self.names, self.repeats, self.seed)

    @property
    def identity(self) -> object:
        # Other data under the same names is the same study, which says so.
        return replace(self, data_seen={})

    @property
    def configs(self) -> Mapping[str, str]:
        if self.commands is not None:
            return self.commands.scripts
        return {arm.toml: arm.toml_sha256 for arm in self.arms}

    def problem_with(self, sample: Sample) -> str:
        """Why this cannot be a repeat of the study; empty if it can."""
        if sample.arm not in self.names:
            return f"There is no arm {sample.arm!r}."
        if not 1 <= sample.block <= self.repeats or not 0 <= sample.position < len(self.arms):
            return f"There is no repeat {sample.block}, position {sample.position}."
        if not 0 <= sample.steps < _MOST_STEPS:
            return f"A repeat cannot have {sample.steps} steps."
        if sample.host and not is_plain_name(sample.host):
            return f"A host cannot have the name {sample.host[:80]!r}."
        return ""

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)
