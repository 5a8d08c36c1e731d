"""One repeat of one arm: what was run, how it ended, and all measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

# clean: no incident; survived: finished after incidents; lost: did not finish; void: killed from
# outside, will be repeated; invalid: configuration or data were refused.
RepeatOutcome = Literal["clean", "survived", "lost", "void", "invalid"]
CRASHED: Final[tuple[RepeatOutcome, ...]] = ("survived", "lost")
COUNTED: Final[tuple[RepeatOutcome, ...]] = ("clean", *CRASHED)

# points (x, y), thinned: x is a step, or seconds, see the field
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class RepeatIncident:
    """An incident of a repeat, for statistics."""

    name: str  # its class
    process: str
    step: int  # optimizer steps done before it


@dataclass(frozen=True, kw_only=True)
class EvalPoint:
    """One evaluation during a repeat."""

    step: int
    seconds: float  # since the start, restarts and evaluations included
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A line of samples.jsonl. Missing values are None or empty, never 0."""

    arm: str
    block: int  # Arms of one block share the seed and ran one after another: they are a pair.
    position: int  # in its block, from 0
    seed: int
    outcome: RepeatOutcome
    exit_code: int = 0
    reason: str = ""  # the error message if the repeat did not finish
    incidents: tuple[RepeatIncident, ...] = ()
    steps: int = 0  # optimizer steps that were computed, including repeated ones after a restart
    wall_s: float | None = None
    samples_per_s: float | None = None
    peak_anon_mb: float | None = None
    memory_slope_mb_per_1k_steps: float | None = None
    # at the end, after equally many steps as the other arms
    metrics: Mapping[str, float] = field(default_factory=dict)
    evaluated: tuple[EvalPoint, ...] = ()
    loss: Curve = ()  # by step
    memory: Curve = ()  # anonymous and shared megabytes, by seconds since the start
    weights_sha256: str = ""
    exact: bool | None = None
    # Of a study on several hosts: who ran it, in which attempt at its block, and where its folder is
    # there. Empty and 0 on one host.
    host: str = ""
    attempt: int = 0
    folder: str = ""

    @property
    def of_command(self) -> bool:
        """A repeat of anybody's command: it has no steps, rows or curves."""
        return "seconds" in self.metrics

    @property
    def counted(self) -> bool:
        return self.outcome in COUNTED

    @property
    def crashed(self) -> bool:
        return self.outcome in CRASHED

    @property
    def first_crash(self) -> int | None:
        """Steps before the first incident; None without one (censored at `steps`)."""
        return min((i.step for i in self.incidents), default=None) if self.crashed else None

    @property
    def lasted(self) -> int:
        return self.steps if self.first_crash is None else self.first_crash
