"""The events of a supervised run and the actions of the supervisor, for `decide.py`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ttf.host.at_work import PluginWork
from ttf.incidents.death import Remedy
from ttf.rundir.request import Change

# Errors of ttf that are incidents: `decide.py` chooses what follows; others are only passed on.
MENDABLE: Final = frozenset(
    {
        "NumericFailure",
        "RanksDrifted",
        "DataChanged",
        "StorageError",
        "DeviceMistrusted",
        "PeerLost",
        "RanksDisagree",
    }
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The part of the configuration that the supervisor needs."""

    max_restarts: int = 5
    hang_timeout_s: float | None = None  # None: learned, see `SuperviseConfig`
    remedies: bool = True


@dataclass(frozen=True, kw_only=True)
class Life:
    """How far one trainer came, from the moment it was ready for its first step."""

    steps: int = 0
    seconds: float = 0.0


# --- events: each carries the time it happened at, on the monotonic clock ----------------------


@dataclass(frozen=True, kw_only=True)
class Started:
    now: float


@dataclass(frozen=True, kw_only=True)
class Limited:
    """The trainer read its configuration and imports the plugins that it names next."""

    now: float
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Configured:
    """The trainer knows its configuration; `flat` has dotted keys."""

    now: float
    settings: Settings
    flat: Mapping[str, Any]
    # Remedies of `memory-limit` for this configuration. If there are any, a trainer that runs out
    # of memory is asked to leave.
    memory_remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Beat:
    """The flight record changed at the time `at`: a sign of life. `saving_since`: when the
    checkpoint thread started its current write."""

    now: float
    at: float
    step: int
    phase: str
    saving_since: float | None = None
    plugin: PluginWork | None = None  # the plugin at work, where that is noted


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    now: float
    step: int
    cost_s: float = 0.0  # how long its write took
    lived: Life = Life()


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """Held memory as a share of the limit (1.0 = the limit), without page cache."""

    now: float
    share: float
    text: str = ""  # '7.6 GB of 8.0 GB (cgroup /job)'


@dataclass(frozen=True, kw_only=True)
class Signalled:
    """SIGINT or SIGTERM arrived: a request to end."""

    now: float
    signum: int


@dataclass(frozen=True, kw_only=True)
class Suspended:
    """The terminal stopped the whole process tree for `seconds`; the tree runs again now."""

    now: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The trainer sent its final record and ended: with a summary, or with an error to raise."""

    now: float
    exit_code: int
    # 'memory': it saved and left because the supervisor asked it to
    left: Literal["", "memory"] = ""


@dataclass(frozen=True, kw_only=True)
class Died:
    """The trainer ended without a final record, or with an error that a restart may solve. The
    incident is written."""

    now: float
    incident: str  # id of the incident, '002'
    name: str  # class of the incident
    certain: bool  # its remedy is worth applying at the first death
    step: int
    phase: str
    checkpoint_step: int  # step of the newest intact checkpoint; -1: none
    remedies: tuple[Remedy, ...] = ()
    retry: bool = True  # False: a restart cannot help (bad data, a non-finite loss)
    lived: Life | None = None  # None: it was not ready for its first step
    plugin: PluginWork | None = None  # it died in this plugin's code
    # How much is on the disk of the mining round or calibration in which it died: the next trainer
    # goes on there. Comparable within one.
    kept_work: int = 0


@dataclass(frozen=True, kw_only=True)
class Tick:
    """The requested timer (`wake_at`), or any other moment."""

    now: float


Event = (
    Started
    | Limited
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
    save_every: int = 0  # steps between checkpoints that are waited for; 0: as configured
    because: str = ""  # for people; empty for the first start


@dataclass(frozen=True, kw_only=True)
class AskToStop:
    """Tell the trainer to save at the next step boundary and to end as that signal asks."""

    signum: int


@dataclass(frozen=True, kw_only=True)
class AskToShed:
    """Tell the trainer to free what it can: caches, prefetched batches, an idle worker."""


@dataclass(frozen=True, kw_only=True)
class AskToLeave:
    """Tell the trainer to save at the next step boundary and to leave, for a restart."""


@dataclass(frozen=True, kw_only=True)
class SaveEvery:
    """Tell the trainer to save less often, or as configured (0): it lives longer than those before."""

    steps: int


@dataclass(frozen=True, kw_only=True)
class DumpStacks:
    """Write the stacks of the trainer (SIGUSR1; SIGCONT as well if it is stopped)."""


@dataclass(frozen=True, kw_only=True)
class Kill:
    """Kill the process tree."""

    why: Literal["hang", "memory", "stop"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Say:
    text: str
    loud: bool = False


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """End with exit code 5 and the list of all deaths."""

    text: str


@dataclass(frozen=True, kw_only=True)
class EndWithError:
    """Raise the trainer's own error with its exit code: a restart would fail in the same way."""

    incident: str
    text: str  # why there is no restart
    plugin: PluginWork | None = None  # as in `Died`


@dataclass(frozen=True, kw_only=True)
class Finish:
    """The end of the trainer is the end of the run."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """End as the signal asks, without a trainer (it died, or a second signal arrived)."""

    signum: int


Action = (
    Spawn
    | AskToStop
    | AskToShed
    | AskToLeave
    | SaveEvery
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
