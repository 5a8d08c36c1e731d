"""Messages between a supervisor and its trainer, as JSON on two pipes; the first is the request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from ttf.process.error_document import ErrorDocument
from ttf.rundir.documents import Summary
from ttf.rundir.world_place import WorldPlace


@dataclass(frozen=True, kw_only=True)
class Change:
    """One edit of the configuration by a remedy or by --safe."""

    value: Any
    origin: str  # For run.toml: 'remedy of incident 002 (omp-duplicate)'.
    deviation: str = ""  # What it changes in the numbers; empty if nothing.


@dataclass(frozen=True, kw_only=True)
class History:
    """The run before this process; goes into its summary."""

    restarts: int = 0
    wall_s: float = 0.0  # Time of all earlier processes, including those that died.
    started_at: float = 0.0  # Start of this process, on the monotonic clock.
    # Ids written since the last trainer's start: observers have not received them.
    incidents: tuple[str, ...] = ()


def hides_faults() -> dict[str, str]:
    """Environment variables that turn an abort into wrong numbers; the trainer does not get them,
    and they are reported and kept in the manifest."""
    return {name: os.environ[name] for name in ("KMP_DUPLICATE_LIB_OK",) if name in os.environ}


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A new run (from file, sets and flags) or a resumed one (from its run.toml)."""

    run_dir: str
    resume: bool = False
    config: str | Mapping[str, Any] | None = None  # A TOML file's path, or the sections themselves.
    sets: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    safe: bool = False
    remedies: bool | None = None  # False: --no-remedies; None: as the configuration says.
    json: bool = False
    progress: bool = True
    live_width: int = 0  # Of a display that is no terminal, but renews a line: a notebook's cell.
    overlay: Mapping[str, Change] = field(default_factory=dict)  # Active remedies, by dotted key.
    history: History = History()
    # Steps between checkpoints that are waited for, because trainers died; 0: as configured.
    save_every: int = 0
    # Environment variables that the trainer does not get, see `hides_faults`.
    left_out: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()  # What the user typed, for the manifest.
    remote: bool = True  # False: data behind a URL is refused, nobody here has named it.
    # Its run.toml came from another node, and this command did not ask for that run.
    adopted: bool = False
    world: WorldPlace | None = None  # None: the run has one process.


class ToTrainer(TypedDict, total=False):
    """One key at a time; the request comes first."""

    request: dict[str, Any]
    stop: int  # Save at the next step and end, as at this signal.
    shed: Literal[True]  # Memory is short: free what can be made again.
    leave: Literal[True]  # Memory is short: save and end, a new process continues.
    say: str  # For the screen, which the trainer owns.
    save_every: int  # From now on, as in the request.


class TrainerEnd(TypedDict, total=False):
    """One key."""

    summary: Summary
    error: ErrorDocument
    left: Literal["memory"]


class FromTrainer(TypedDict, total=False):
    """One of five: `log`, `supervise`, `configured` with `inputs`, `checkpointed` with `cost_s`,
    `end`."""

    log: str  # For log.txt, without secrets.

    # The section [supervise]: before any plugin is imported, which may hang.
    supervise: dict[str, Any]

    # By dotted key: as soon as it is known, and again when every "auto" is settled.
    configured: dict[str, Any]
    inputs: list[str]  # Files that the run reads.
    checkpointed: int  # The step of a checkpoint that is durable.
    cost_s: float  # How long its write took.
    end: TrainerEnd  # The last message.
