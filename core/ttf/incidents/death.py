"""What is known about a process that ended: gathered, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ttf.machine.memory.tree import MemoryPoint
from ttf.rundir.flight_record import Flight

ProcessName = Literal["trainer", "miner", "supervisor", "command"]
KilledByUs = Literal["", "hang", "memory", "stop", "garbage"]


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """An input that is not what it was when the run opened it."""

    path: str
    was: str
    """e.g. '40,960 bytes, fingerprint 3f2a...'"""
    now: str
    cut: bool = False
    """It is shorter than it was: a process that maps it dies of SIGBUS where it touches the end."""


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """The end of a process as far as whoever started it knows; the rest of a `Death` is looked for."""

    returncode: int
    """As of Popen: negative where a signal ended it."""
    killed: tuple[KilledByUs, str] = ("", "")
    """Why we killed it, as a word and for a person."""
    stderr: bytes = b""
    flight: Flight | None = None
    error: Mapping[str, Any] | None = None
    finished: bool = False
    """It sent its final record."""
    memory: tuple[MemoryPoint, ...] = ()
    limit_source: str = ""
    folders: tuple[Path, ...] = ()
    """It wrote to these; /dev/shm is looked at anyway."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    dump: str | None = None
    """Its stacks, where they are not in the file named at its start."""


@dataclass(frozen=True, kw_only=True)
class Death:
    """The end of one process, seen from outside."""

    process: ProcessName
    pid: int
    time: float
    signal: int | None = None
    exit_code: int | None = None
    """None where a signal ended it. Shell wrappers turn a signal into 128 + its number."""
    killed_by_us: KilledByUs = ""
    reason: str = ""
    """Why we killed it, for a person: 'no sign of life for 60 s in mining'."""
    stderr: str = ""
    """The end of what it wrote there, lossily decoded."""
    raw_stderr: bytes = b""
    """The same, byte for byte; for the file."""
    faulthandler: str = ""
    """Stacks that were dumped at its death or on demand; may be cut anywhere."""
    flight: Flight | None = None
    error: Mapping[str, Any] | None = None
    """What it said itself before it ended: class, message, hint, exit_code, traceback."""
    finished: bool = False
    """It sent its final record."""
    oom_kills: int = 0
    """How far the kernel's counters rose while it lived."""
    oom_source: str = ""
    """Which counter, e.g. 'cgroup /job (memory.oom_control)'."""
    memory: tuple[MemoryPoint, ...] = ()
    limit_source: str = ""
    changed_files: tuple[FileChange, ...] = ()
    free_disk: Mapping[str, int] = field(default_factory=dict)
    """Free bytes by folder, of the run and of /dev/shm."""
    openmp: tuple[str, ...] = ()
    """OpenMP runtimes that were mapped into it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Flat configuration, 'miner.isolation': 'none'; what remedies edit."""
    kernel: str = ""
    """The kernel log's own words (macOS: the crash report's), where they may be read."""
    native: str = ""
    """The library of the frame that crashed, e.g. 'libfaiss.so'."""

    @property
    def phase(self) -> str | None:
        return None if self.flight is None else self.flight.phase

    @property
    def step(self) -> int | None:
        return None if self.flight is None else self.flight.step


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One fact and where it was found."""

    source: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """An edit of the configuration that avoids a cause."""

    text: str
    set: Mapping[str, Any] = field(default_factory=dict)
    deviation: str = ""
    """What it changes in the numbers; empty where they stay bitwise the same."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a death was."""

    name: str
    """The incident class, as in the outer contract."""
    certain: bool
    """Whether the evidence names the cause, so that its remedy is applied at the first time."""
    explanation: str
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...] = ()
    ends_with: int | None = None
    """Exit code of a run that ends of this, because a restart would meet it again; None: it may
    help."""
