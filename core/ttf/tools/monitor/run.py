"""What is known of a run, looked at once; only data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STALE_S: Final = 10.0
"""A silence that is worth a word; what counts as a hang is the supervisor's to decide."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Saved:
    step: int
    age_s: float


@dataclass(frozen=True, kw_only=True)
class Happened:
    """An incident."""

    id: str
    name: str
    process: str
    remedy: str | None
    age_s: float | None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run that is over ended; see summary.json."""

    status: str
    exit_code: int | None
    problem: str
    hint: str
    metrics: Mapping[str, float]
    peak_mb: float | None
    wall_s: float | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its files show it; None for what they do not say (yet)."""

    folder: Path
    step: int
    total_steps: int | None
    epoch: int | None
    phase: str | None
    phase_s: float | None
    """For how long it has been at it; at least, where `since_before`."""
    since_before: bool
    """It was at it already when we began to look."""
    silent_s: float | None
    """Since its last sign of life."""
    last_sign_s: float | None
    """The same of a run that nobody is seen to work on."""
    saving_s: float | None
    """For how long a checkpoint has been written beside the training."""
    samples_per_s: float | None
    loss: float | None
    loss_smoothed: float | None
    losses: tuple[float, ...]
    """The newest last; what a small curve is made of."""
    seconds_left: float | None
    """At the pace of the last minutes, mining and evaluations included."""
    evaluated: Evaluated | None
    checkpoint: Saved | None
    restarts: int
    incidents: tuple[Happened, ...]
    free_disk: int | None
    ended: Ended | None

    @property
    def stale(self) -> bool:
        return self.silent_s is not None and self.silent_s >= STALE_S
