"""What the supervisor knows about a run: the state that `decide.py` maps to actions. Only data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ttf.incidents.death import Remedy
from ttf.rundir.request import Change, History
from ttf.supervise.events import Settings

Edit = tuple[str, str]
"""A dotted key and the repr of the value it was set to."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One death, as the story of the run tells it."""

    incident: str
    name: str
    step: int
    phase: str
    checkpoint_step: int
    outcome: str
    """What was done about it."""

    @property
    def place(self) -> tuple[str, int, str]:
        """Two strikes with the same one are the same crash."""
        return self.name, self.step, self.phase


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What one phase has been seen to do, in this run."""

    left: int = 0
    """How often the trainer went on to another phase."""
    longest_gap_s: float = 0.0
    """Between two signs of life."""


@dataclass(frozen=True, kw_only=True)
class Saving:
    """The checkpoint that is being written beside the training."""

    reported: float
    """As the flight record says it; tells one checkpoint from the next."""
    since: float
    """The same, without the time the whole tree was suspended."""


@dataclass(frozen=True, kw_only=True)
class Hang:
    """A deadline that was missed; the stacks are being written."""

    noticed_at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """The process that is alive."""

    started_at: float
    beat_at: float
    step: int = 0
    phase: str = "start"
    configured: bool = False
    saving: Saving | None = None
    hang: Hang | None = None
    killed_at: float | None = None
    survives_said: bool = False
    """It was said that the kill had no effect."""
    warned_at: float | None = None
    """When it was said that memory runs short; until there is enough again, long after."""
    full_said: bool = False
    shed_at: float | None = None
    leave_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Somebody asked for an end."""

    signum: int
    at: float


@dataclass(frozen=True, kw_only=True)
class State:
    """The whole run as the supervisor sees it."""

    stage: Literal["spawning", "running", "left", "over"] = "spawning"
    """`left`: the trainer went because of memory; what it died of is still to be told."""
    trainer: Trainer | None = None
    """While `running` and `left`."""
    stopping: Stopping | None = None
    settings: Settings = field(default_factory=Settings)
    flat: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of the newest trainer, by dotted keys."""
    memory_remedies: tuple[Remedy, ...] = ()
    overlay: Mapping[str, Change] = field(default_factory=dict)
    """Remedies in force."""
    history: History = field(default_factory=History)
    """For the next trainer's request."""
    strikes: tuple[Strike, ...] = ()
    applied: frozenset[Edit] = frozenset()
    """Whatever this supervisor set by a remedy: nothing is set to the same value twice."""
    restarts: int = 0
    """Unchanged ones in a row without progress."""
    remedies_in_a_row: int = 0
    """Those applied since a checkpoint was last seen to grow."""
    best_checkpoint: int = -1
    """The highest step of an intact checkpoint that was seen at any death."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    longest_save_s: float = 0.0
