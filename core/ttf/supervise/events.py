"""What can happen to a supervised run, and what can be done: the vocabulary of `decide.py`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ttf.incidents.death import Remedy
from ttf.rundir.request import Change


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The part of the configuration that the supervisor obeys."""

    max_restarts: int = 5
    hang_timeout_s: float | None = None
    """None: learned, see `SuperviseConfig`."""
    remedies: bool = True


# --- events: each carries the time it happened at, on the monotonic clock ----------------------


@dataclass(frozen=True, kw_only=True)
class Started:
    """A trainer process was spawned."""

    now: float


@dataclass(frozen=True, kw_only=True)
class Configured:
    """The trainer knows its configuration; `flat` holds dotted keys."""

    now: float
    settings: Settings
    flat: Mapping[str, Any]
    memory_remedies: tuple[Remedy, ...] = ()
    """What `memory-limit` would be answered with at these settings: where there is something, a
    trainer that runs out of memory is asked to leave."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """The flight recorder moved: a sign of life at `at`, in `phase` of `step`. `saving_since`: when
    the checkpoint thread began what it is at."""

    now: float
    at: float
    step: int
    phase: str
    saving_since: float | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    now: float
    step: int


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """Memory held as a share of what may be held (1.0 = the limit); page cache never counts."""

    now: float
    share: float
    text: str = ""
    """'7.6 GB of 8.0 GB (cgroup /job)'."""


@dataclass(frozen=True, kw_only=True)
class Signalled:
    """A person or a system asks for an end: SIGINT, SIGTERM."""

    now: float
    signum: int


@dataclass(frozen=True, kw_only=True)
class Suspended:
    """The whole tree was stopped from the terminal for so long, and goes on."""

    now: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The trainer sent its final record and is gone: a summary, or an error to be raised."""

    now: float
    exit_code: int
    left: Literal["", "memory"] = ""
    """'memory': it saved and left because we asked it to."""


@dataclass(frozen=True, kw_only=True)
class Died:
    """The trainer is gone without a final record, or after an error that restarts may mend; the
    incident is written."""

    now: float
    incident: str
    """Its id, '002'."""
    name: str
    """Its class."""
    certain: bool
    step: int
    phase: str
    checkpoint_step: int
    """The newest intact checkpoint; -1: none."""
    remedies: tuple[Remedy, ...] = ()
    retry: bool = True
    """False: a restart cannot help (bad data, a non-finite loss)."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """The timer the state asked for, or any other moment."""

    now: float


Event = (
    Started
    | Configured
    | Beat
    | Checkpointed
    | Pressure
    | Signalled
    | Suspended
    | Ended
    | Died
    | Tick
)


# --- actions -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Spawn:
    """Start a trainer after `delay_s`, with `overlay` on its configuration."""

    delay_s: float = 0.0
    overlay: Mapping[str, Change] = field(default_factory=dict)
    because: str = ""
    """For a person; empty for the first start."""


@dataclass(frozen=True, kw_only=True)
class AskToStop:
    """Tell the trainer to save at the next step boundary and end as that signal asks."""

    signum: int


@dataclass(frozen=True, kw_only=True)
class AskToShed:
    """Tell the trainer to give back what it can: caches, prefetched batches, an idle worker."""


@dataclass(frozen=True, kw_only=True)
class AskToLeave:
    """Tell the trainer to save at the next step boundary and leave, to be started anew."""


@dataclass(frozen=True, kw_only=True)
class DumpStacks:
    """Have the trainer's stacks written (SIGUSR1, and SIGCONT where it is stopped)."""


@dataclass(frozen=True, kw_only=True)
class Kill:
    """Kill the tree."""

    why: Literal["hang", "memory", "stop"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Say:
    text: str
    loud: bool = False


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """End with exit code 5 and the whole story."""

    text: str


@dataclass(frozen=True, kw_only=True)
class EndWithError:
    """Raise the trainer's own error, with its own exit code: a restart would meet it again."""

    incident: str
    text: str
    """Why there is no restart."""


@dataclass(frozen=True, kw_only=True)
class Finish:
    """The trainer's own end is the run's end."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """End as the signal asks, without a trainer to do so (it died, or a second signal came)."""

    signum: int


Action = (
    Spawn
    | AskToStop
    | AskToShed
    | AskToLeave
    | DumpStacks
    | Kill
    | Say
    | GiveUp
    | EndWithError
    | Finish
    | Stop
)


def now() -> float:
    """The clock of all events."""
    return time.monotonic()
