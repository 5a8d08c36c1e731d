"""One trial: what was tried, how it ended, and its scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

# finished: ran to its end; hopeless: ended early, because it was behind the others; failed: it
# died, or its numbers were no numbers; void: ended from outside, will be repeated; cut: the time was
# used up.
TrialOutcome = Literal["finished", "hopeless", "failed", "void", "cut"]
COUNTED: Final[tuple[TrialOutcome, ...]] = ("finished", "hopeless", "failed")
LOOKS: Final = 4  # evaluations of a trial, at equal distances; the last one at its end


@dataclass(frozen=True, kw_only=True)
class TuneTrial:
    """A line of trials.jsonl."""

    number: int  # from 1; trial 1 is the user's configuration
    point: Mapping[str, Any] = field(default_factory=dict)  # empty: outside of the space
    outcome: TrialOutcome = "finished"
    scores: tuple[float, ...] = ()  # the metric at each look
    score: float | None = None  # of a finished trial
    metrics: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0
    evaluating_s: float = 0.0
    incidents: tuple[str, ...] = ()  # classes
    reason: str = ""
    exit_code: int = 0

    @property
    def counted(self) -> bool:
        return self.outcome in COUNTED

    @property
    def name(self) -> str:
        return folder_name(self.number)


def folder_name(number: int) -> str:
    """In runs/."""
    return f"{number:03d}"


def best_of(trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """The highest score; of equal ones the earlier, so that the start wins a tie."""
    scored = [t for t in trials if t.outcome == "finished" and t.score is not None]
    return max(scored, key=lambda t: (t.score or 0.0, -t.number), default=None)


def is_finite(value: float) -> bool:
    return math.isfinite(value)
