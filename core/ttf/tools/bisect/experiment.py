"""What a study of `ttf bisect` runs again and again, with some of its ingredients taken out.

There are two kinds: a training run (`runs`) and anybody's command (`command_runs`). Planner, journal
and output know only this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ttf.tools.bisect.factors import Factor
from ttf.tools.studies.one_run import FinishedRun, Result, StartedRun

MOST_FACTORS: Final = 32
_MOST_SEED: Final = 1 << 62


class Trial(NamedTuple):
    run: int
    ablated: tuple[str, ...]
    seed: int


@dataclass(frozen=True, kw_only=True)
class BisectRun:
    """A finished run; a line of bisect.jsonl."""

    run: int
    ablated: tuple[str, ...]
    seed: int
    result: Result
    classes: tuple[str, ...] = ()
    where: str = ""
    reason: str = ""
    exit_code: int = 0
    seconds: float = 0.0
    error: Mapping[str, Any] | None = None


class Experiment(ABC):
    """What all runs of a study share: a dataclass, written to study.json and never changed."""

    factors: tuple[Factor, ...]
    passed: Mapping[str, str]  # ingredients that do not apply, and why
    seed: int
    confidence: float
    rarest: float

    @property
    @abstractmethod
    def identity(self) -> object:
        """Equal for two commands that ask for the same study."""

    @property
    @abstractmethod
    def configs(self) -> Mapping[str, str]:
        """The SHA-256 of every file that must not change during the study, by its path."""

    @property
    def data_seen(self) -> Mapping[str, str]:
        return {}  # It looks for a crash, and compares no figures.

    @property
    def problem(self) -> str:
        """Why this cannot be a setup; empty if it can. It may come from a study.json that this
        program did not write."""
        names = [factor.name for factor in self.factors]
        if len(set(names)) < len(names) or len(names) > MOST_FACTORS:
            return f"A study has at most {MOST_FACTORS} ingredients of different names."
        if not (0 < self.confidence < 1 and 0 < self.rarest <= 1 and 0 <= self.seed < _MOST_SEED):
            return "The confidence, the rarest crash or the seed is out of range."
        return ""

    def chosen(self, names: Sequence[str] | frozenset[str]) -> list[Factor]:
        return [factor for factor in self.factors if factor.name in names]

    # --- a run --------------------------------------------------------------------------------

    @abstractmethod
    def start(
        self, trial: Trial, study: Path, *, allow_remote: bool
    ) -> StartedRun | FinishedRun[BisectRun]:
        """A finished run if it cannot be started."""

    @abstractmethod
    def finish(
        self, trial: Trial, run: StartedRun, before: Sequence[BisectRun]
    ) -> FinishedRun[BisectRun]:
        """Reads the run, and deletes its folder, except for the evidence of a crash. `before`: the
        finished runs."""

    # --- words ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def about(self) -> str:
        """What a run is: 'runs of 40 steps'."""

    @abstractmethod
    def edits(self, names: Sequence[str], study: Path) -> dict[str, Any]:
        """What takes these ingredients out. Raises TtfError."""

    @abstractmethod
    def again(self, edits: Mapping[str, Any], seed: int) -> str:
        """The shortest command for the same run."""

    @abstractmethod
    def avoiding(self, advice: Mapping[str, Any]) -> str:
        """The command for a person who wants the crash away."""

    @abstractmethod
    def unexplained(self) -> str:
        """What all runs have in common, if no ingredient explains the crash."""

    @abstractmethod
    def if_later(self) -> str:
        """What to try if no run crashed."""
