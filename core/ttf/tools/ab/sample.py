"""One repeat of one arm: what was run, how it ended, and everything that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

RepeatOutcome = Literal["clean", "survived", "lost", "void", "invalid"]
"""clean: no incident; survived: incidents, and it finished all the same; lost: it did not finish;
void: it was killed from outside, and is repeated; invalid: its configuration or data was refused."""
CRASHED: Final[tuple[RepeatOutcome, ...]] = ("survived", "lost")
COUNTED: Final[tuple[RepeatOutcome, ...]] = ("clean", *CRASHED)

Curve = tuple[tuple[float, float], ...]
"""Points (x, y), thinned: x is a step, or seconds, as the field says."""


@dataclass(frozen=True, kw_only=True)
class RepeatIncident:
    """One of a repeat, as far as statistics need it."""

    name: str
    """Its class."""
    process: str
    step: int
    """Optimizer steps done when it happened."""


@dataclass(frozen=True, kw_only=True)
class EvalPoint:
    """One evaluation on the way: metrics at a step, and when that was."""

    step: int
    seconds: float
    """Since the start, restarts and evaluations included."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A line of samples.jsonl. What a repeat did not come to is None or empty, never 0."""

    arm: str
    block: int
    """Arms of one block share the seed, and ran after one another: they are a pair."""
    position: int
    """In its block, 0 first."""
    seed: int
    outcome: RepeatOutcome
    exit_code: int = 0
    reason: str = ""
    """The error message, where it did not finish."""
    incidents: tuple[RepeatIncident, ...] = ()
    steps: int = 0
    """Optimizer steps that were carried out, those done again after a restart included."""
    wall_s: float | None = None
    samples_per_s: float | None = None
    peak_anon_mb: float | None = None
    memory_slope_mb_per_1k_steps: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """At the end: after equally many steps as the other arms."""
    evaluated: tuple[EvalPoint, ...] = ()
    loss: Curve = ()
    """By step."""
    memory: Curve = ()
    """Anonymous and shared megabytes, by seconds since the start."""
    weights_sha256: str = ""
    exact: bool | None = None

    @property
    def counted(self) -> bool:
        return self.outcome in COUNTED

    @property
    def crashed(self) -> bool:
        return self.outcome in CRASHED

    @property
    def first_crash(self) -> int | None:
        """Steps done before the first incident; None where there was none: censored at `steps`."""
        return min((i.step for i in self.incidents), default=None) if self.crashed else None

    @property
    def lasted(self) -> int:
        """Steps without an incident."""
        return self.steps if self.first_crash is None else self.first_crash
