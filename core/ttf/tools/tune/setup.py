"""The setup of a study (study.json): what may vary, from where the search starts, and the facts.

It is fixed when the study begins. A later version that would choose another space continues with
this one, so that the finished trials keep their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["float", "int", "choice"]
TOWER: Final = "tower.query.name"
DOC_TOWER: Final = "tower.doc.name"
MOST_TRIALS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A key of the configuration that the search may set."""

    key: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    # Only where these keys have these values, as in `tower.query.name`: `mlp`.
    only_if: Mapping[str, Any] = field(default_factory=dict)

    def applies(self, values: Mapping[str, Any]) -> bool:
        return all(values.get(key) == value for key, value in self.only_if.items())

    def holds(self, value: Any) -> bool:
        if self.kind == "choice":
            return any(value is c or (type(value) is type(c) and value == c) for c in self.choices)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class TuneFacts:
    """Counts about the data, and a prediction of the time."""

    pairs: int  # training pairs of the last run
    trial_pairs: int  # those of a trial: without the hold-out
    held_out: int
    val: int  # validation pairs of the last run
    bank: int
    predicted_s: float  # of a full run of the start, start-up included
    calibration_s: float  # of it, and of a trial


@dataclass(frozen=True, kw_only=True)
class TuneSetup:
    base: Mapping[str, Any]  # the user's configuration without what the search sets, as sections
    origins: Mapping[str, str]  # of the values that are not defaults
    start: Mapping[str, Any]  # what the user's configuration has for those keys, by dotted key
    # The point of the space that the user's configuration is; empty if it lies outside.
    start_point: Mapping[str, Any]
    settled: Mapping[str, Any]  # the user's configuration without any "auto", by dotted key
    start_steps: int  # optimizer steps of a full trial of the start
    space: tuple[Dimension, ...]
    first: tuple[Mapping[str, Any], ...]  # points that are tried before the sampler's
    hold_out: float  # share of the training pairs
    share: float  # of a full run's steps that a trial takes
    metric: str
    seed: int
    budget_s: float
    trials: int | None  # the most; None: as many as the time allows
    facts: TuneFacts
    cwd: str
    asked: str  # SHA-256 of what the user asked for, without the budget
    data_seen: Mapping[str, str] = field(default_factory=dict)  # see `ttf.tools.studies.study`

    @property
    def problem(self) -> str:
        """Why this cannot be a setup; empty if it can. study.json may be from somebody else."""
        if not (0 < self.hold_out < 1 and 0 < self.share <= 1):
            return "The hold-out and the length of a trial must be shares."
        if self.start_steps < 1 or self.facts.trial_pairs < 1:
            return "A trial must have pairs and steps."
        return ""

    @property
    def identity(self) -> object:
        return self.asked

    @property
    def configs(self) -> Mapping[str, str]:
        return {}  # The whole configuration is in `base` and `start`.

    def steps_of(self, point: Mapping[str, Any]) -> int:
        """Optimizer steps of a trial with these values; the start has its own."""
        if not point:
            return max(1, round(self.start_steps * self.share))
        values = {**self.settled, **point}
        step = values["train.batch_size"] * values["train.accumulate"]
        steps: int = values["train.epochs"] * max(1, self.facts.trial_pairs // step)
        most: int | None = values["train.steps"]
        return max(1, round((steps if most is None else min(steps, most)) * self.share))
