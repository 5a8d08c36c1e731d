"""What is known about a process that ended. Nothing in these classes is a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from ttf.machine.memory.tree import MemoryPoint
from ttf.rundir.flight_record import IN_A_STEP, Flight

ProcessName = Literal["trainer", "miner", "supervisor", "command"]
UNNAMED: Final = "??"
KilledByUs = Literal["", "hang", "straggler", "memory", "stop", "garbage"]


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """An input that differs from what it was when the run opened it."""

    path: str
    was: str  # for example '40,960 bytes, fingerprint 3f2a...'
    now: str
    # The file is shorter than before. A process that maps it gets SIGBUS when it reads the end.
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class ProcessorTime:
    """Of a process with a limit of processor time (RLIMIT_CPU)."""

    used_s: float  # when it was last read
    at_most_s: float  # when the process ended
    soft_s: float  # here the kernel sends SIGXCPU; inf: no limit
    hard_s: float  # here the kernel sends SIGKILL

    def is_near(self, limit_s: float) -> bool:
        # The kernel compares its count of timer ticks with the limit, but reports a time that is
        # corrected by its scheduler: on a busy virtual machine a third less.
        return self.at_most_s >= 0.6 * limit_s


@dataclass(frozen=True, kw_only=True)
class NativeFrame:
    function: str  # UNNAMED: the library has no name for it
    library: str  # '': the program itself, or unknown

    def __str__(self) -> str:
        return f"{self.function} ({self.library})" if self.library else self.function


@dataclass(frozen=True, kw_only=True)
class Backtrace:
    """The native stacks of a process when it crashed."""

    frames: tuple[NativeFrame, ...] = ()  # of the thread that crashed, from where it did so
    text: str = ""  # of all threads, as gdb shows them
    note: str = ""  # why there is none, and the command that would show it


@dataclass(frozen=True, kw_only=True)
class CrashReport:
    """A report of macOS about one process."""

    path: Path
    pid: int
    signal: str = ""
    # The exception, the termination and the last message of the application, one per line.
    words: str = ""
    native: str = ""
    openmp: tuple[str, ...] = ()
    killed_for_memory: str = ""  # for example 'per-process-limit'


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """What the parent knows about the end of a process. `Witness.death` finds the rest of a
    `Death`."""

    returncode: int  # as of Popen: negative if a signal ended the process
    # Why ttf killed the process: the class of the reason, and a text for people.
    killed: tuple[KilledByUs, str] = ("", "")
    stderr: bytes = b""
    flight: Flight | None = None
    error: Mapping[str, Any] | None = None
    finished: bool = False  # it sent its final record
    memory: tuple[MemoryPoint, ...] = ()
    limit_source: str = ""
    folders: tuple[Path, ...] = ()  # folders that it wrote to; /dev/shm is always checked as well
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Stacks, if they are not in the file that was named at the start.
    dump: str | None = None
    uncaught: str = ""  # class of the exception that ended Python, as the interpreter noted it


@dataclass(frozen=True, kw_only=True)
class Death:
    process: ProcessName
    pid: int
    time: float
    age_s: float | None = None  # How long it lived; None: unknown.
    signal: int | None = None
    # None after a signal. Shell wrappers turn a signal into 128 + its number.
    exit_code: int | None = None
    killed_by_us: KilledByUs = ""
    reason: str = ""  # for people: 'no sign of life for 60 s in mining'
    # Of a run on several processes: which one it was, and where.
    rank: int | None = None
    host: str = ""
    # What the supervisor knows of the other hosts of the run: they do not answer, or have ended.
    others: Literal["", "silent", "gone"] = ""
    stderr: str = ""  # the end of stderr, decoded with replacement characters
    raw_stderr: bytes = b""  # the same as bytes, for the incident's file
    stdout: str = ""  # the end of standard output, of a foreign command
    # A process below the command died; how the command itself ended, for people.
    command_ended: str = ""
    hidden: bool = False  # and the command itself ended with exit code 0
    faulthandler: str = ""  # stacks dumped at the death or on demand; may be truncated anywhere
    flight: Flight | None = None
    # The error that the process reported: class, message, hint, exit_code, traceback.
    error: Mapping[str, Any] | None = None
    finished: bool = False  # it sent its final record
    uncaught: str = ""  # class of the exception that ended Python, as the interpreter noted it
    processor: ProcessorTime | None = None  # of the process nearest to its limit, if one has one
    oom_kills: int = 0  # how much the kernel's counters increased during its life
    oom_source: str = ""  # the counter, for example 'cgroup /job (memory.oom_control)'
    memory: tuple[MemoryPoint, ...] = ()
    limit_source: str = ""
    # Of the process itself, if no other is lower: '900 MB (RLIMIT_AS, ulimit -v)'.
    own_limit: str = ""
    changed_files: tuple[FileChange, ...] = ()
    # Free bytes by folder, of the run and of /dev/shm.
    free_disk: Mapping[str, int] = field(default_factory=dict)
    no_inodes: tuple[str, ...] = ()  # those of these folders that can take no new file
    openmp: tuple[str, ...] = ()  # OpenMP runtimes that were mapped into it
    # Flat configuration with dotted keys. Remedies edit it.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Files of code in the error that were written after the process had started.
    newer_code: tuple[str, ...] = ()
    kernel: str = ""  # text of the kernel log (macOS: of the crash report), if readable
    native: str = ""  # library of the frame that crashed, for example 'libfaiss.so'
    backtrace: Backtrace | None = None  # if core files were asked for

    @property
    def phase(self) -> str | None:
        return None if self.flight is None else self.flight.phase

    @property
    def step(self) -> int | None:
        return None if self.flight is None else self.flight.step


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the work a trainer died, as far as its flight record tells. Numbers from 1."""

    epoch: int | None = None
    batch_of_epoch: int | None = None
    micro_batch: int | None = None
    micro_batches: int | None = None
    # Of the time of its steps: in the first and last micro-batch and the update.
    boundary_share: float | None = None
    trained_s: float | None = None  # Since its first step began.
    since_mining_s: float | None = None
    since_mining_steps: int | None = None
    mined_for_steps: int | None = None

    @classmethod
    def of(cls, flight: Flight | None) -> Self:
        if flight is None:
            return cls()
        inside = flight.phase in IN_A_STEP and flight.micro_batches > 0
        # The evaluation and the mining before the first step of a process are its start-up.
        started = flight.step > flight.began_step or flight.phase in IN_A_STEP
        mined = flight.mined_s is not None
        steps_s = flight.at_boundary_s + flight.in_between_s
        return cls(
            epoch=flight.step // flight.steps_per_epoch + 1 if flight.steps_per_epoch else None,
            batch_of_epoch=flight.batch_of_epoch if inside else None,
            micro_batch=flight.micro_batch + 1 if inside else None,
            micro_batches=flight.micro_batches if inside else None,
            boundary_share=flight.at_boundary_s / steps_s if steps_s else None,
            trained_s=flight.monotonic_s - flight.began_s if flight.began_s and started else None,
            since_mining_s=flight.monotonic_s - flight.mined_s if flight.mined_s else None,
            since_mining_steps=flight.step - flight.mined_step if mined else None,
            mined_for_steps=flight.mined_for if mined else None,
        )


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
    deviation: str = ""  # how the numbers change; empty if they stay bitwise the same


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The classification of a death."""

    name: str  # the incident class
    certain: bool  # the evidence proves the cause
    explanation: str
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...] = ()
    at_once: bool = False  # the first remedy is worth applying at the first death
    # The exit code of the run, if a restart would fail in the same way. None: a restart may help.
    ends_with: int | None = None
