"""What a supervisor and its trainer tell each other, as JSON on two pipes; first of all the request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from ttf.process.error_document import ErrorDocument
from ttf.rundir.documents import Summary


@dataclass(frozen=True, kw_only=True)
class Change:
    """One edit of the configuration by a remedy or by --safe."""

    value: Any
    origin: str
    """For run.toml: 'remedy of incident 002 (omp-duplicate)'."""
    deviation: str = ""
    """What it changes in the numbers; empty where they stay the same."""


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened to the run before this process; goes into its summary."""

    restarts: int = 0
    wall_s: float = 0.0
    """Time of all earlier processes, the ones that died included."""
    started_at: float = 0.0
    """When this one was started, on the monotonic clock."""
    incidents: tuple[str, ...] = ()
    """Ids written since the last trainer was started: its observers have not heard of them."""


def hides_faults() -> dict[str, str]:
    """Variables in our environment that turn an abort into wrong numbers; they are not passed on,
    but said and kept in the manifest."""
    return {name: os.environ[name] for name in ("KMP_DUPLICATE_LIB_OK",) if name in os.environ}


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A new run (from file, sets and flags) or one to be continued (from its run.toml)."""

    run_dir: str
    resume: bool = False
    config: str | Mapping[str, Any] | None = None
    """A TOML file's path, or the sections themselves."""
    sets: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    safe: bool = False
    remedies: bool | None = None
    """False: --no-remedies; None: as the configuration says."""
    json: bool = False
    progress: bool = True
    overlay: Mapping[str, Change] = field(default_factory=dict)
    """Remedies in force, by dotted key."""
    history: History = History()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment that are kept from the trainer, see `hides_faults`."""
    command: tuple[str, ...] = ()
    """What the person typed, for the manifest."""


class ToTrainer(TypedDict, total=False):
    """One key at a time; the request comes first."""

    request: dict[str, Any]
    stop: int
    """Save at the next step and end, as at this signal."""
    shed: Literal[True]
    """Memory is short: give back what can be made anew."""
    leave: Literal[True]
    """Memory is short: save and end, a fresh process goes on."""
    say: str
    """For the screen, which the trainer has."""


class TrainerEnd(TypedDict, total=False):
    """One key."""

    summary: Summary
    error: ErrorDocument
    left: Literal["memory"]


class FromTrainer(TypedDict, total=False):
    """One of three: `configured` with `inputs`, `checkpointed`, `end`."""

    configured: dict[str, Any]
    """By dotted key: as soon as it is known, and again when every "auto" is settled."""
    inputs: list[str]
    """Files that the run reads."""
    checkpointed: int
    """The step of a checkpoint that is durable."""
    end: TrainerEnd
    """The last message."""
