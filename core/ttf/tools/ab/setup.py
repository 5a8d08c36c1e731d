"""What all repeats of a study share: arms, sizes, and how it is to be judged; study.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttf.tools.ab.schedule import Cell, schedule


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
