"""The data about a run that `decide.py` maps to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ttf.host.at_work import PluginWork
from ttf.incidents.death import Remedy
from ttf.rundir.request import Change, History
from ttf.supervise.events import Life, Settings

Edit = tuple[str, str]  # a dotted key and the repr of its value


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One death, for the report when the run gives up."""

    incident: str
    name: str
    step: int
    phase: str
    checkpoint_step: int
    outcome: str  # what was done about it
    kept_work: int = 0

    @property
    def place(self) -> tuple[str, int, str, int]:
        # Two strikes at the same place are the same crash.
        return self.name, self.step, self.phase, self.kept_work


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What was observed about one phase in this run."""

    left: int = 0  # how often the trainer went on to another phase
    longest_gap_s: float = 0.0  # between two signs of life


@dataclass(frozen=True, kw_only=True)
class Saving:
    """A checkpoint that is being written during training."""

    reported: float  # from the flight record; identifies the checkpoint
    since: float  # like `reported`, without the time that the tree was suspended


@dataclass(frozen=True, kw_only=True)
class Hang:
    """A missed deadline; the stacks are being written."""

    noticed_at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Trainer:
    started_at: float
    beat_at: float
    step: int = 0
    phase: str = "start"
    plugin: PluginWork | None = None
    configured: bool = False
    saving: Saving | None = None
    hang: Hang | None = None
    killed_at: float | None = None
    survives_said: bool = False  # the message that the kill had no effect was printed
    # When low memory was reported. Reset when memory is enough again after `NEWS_AFTER_S`.
    warned_at: float | None = None
    full_said: bool = False
    shed_at: float | None = None
    leave_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """A signal asked for an end."""

    signum: int
    at: float


@dataclass(frozen=True, kw_only=True)
class State:
    # `left`: the trainer left because of memory; its Died event is still to come
    stage: Literal["spawning", "running", "left", "over"] = "spawning"
    trainer: Trainer | None = None  # set while `running` and `left`
    stopping: Stopping | None = None
    settings: Settings = field(default_factory=Settings)
    # configuration of the newest trainer, with dotted keys
    flat: Mapping[str, Any] = field(default_factory=dict)
    memory_remedies: tuple[Remedy, ...] = ()
    overlay: Mapping[str, Change] = field(default_factory=dict)  # remedies in force
    history: History = field(default_factory=History)  # for the next trainer's request
    strikes: tuple[Strike, ...] = ()
    # Edits made by remedies of this supervisor: nothing is set to the same value twice.
    applied: frozenset[Edit] = frozenset()
    restarts: int = 0  # unchanged restarts in a row without progress
    remedies_in_a_row: int = 0  # remedies applied since the newest checkpoint
    best_checkpoint: int = -1  # highest step of an intact checkpoint at any death
    # The farthest unfinished work at any death: its step, and how much of it is kept.
    best_work: tuple[int, int] = (-1, 0)
    lives: tuple[Life, ...] = ()  # of the last trainers that died
    save_cost_s: float = 0.0  # of the newest checkpoint; 0: none was made yet
    save_every: int = 0  # as the trainer was told, see `restart_rules.py`
    paces: Mapping[str, Pace] = field(default_factory=dict)
    longest_save_s: float = 0.0
