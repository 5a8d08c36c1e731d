"""One look at a run and its processes; also as a JSON document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.machine.memory.tree import Device, Machine, TreeMemory
from ttf.rundir.documents import GateResult
from ttf.text.numbers import duration, size
from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.processes import Process
from ttf.tools.monitor.trend import Point

STALE_S: Final = 10.0  # Worth a warning; the supervisor decides what is a hang.


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    step: int
    metrics: Mapping[str, float]
    gates: tuple[GateResult, ...] = ()  # all, also those to come


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
class Governed:
    """The last time that caches were made smaller or larger for the memory limit."""

    what: str  # shrink, grow or short
    why: str
    caches: tuple[str, ...]  # 'read ahead 1.3 GB -> 944 MB'
    time: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a run, from summary.json."""

    status: str
    exit_code: int | None
    problem: str
    hint: str
    metrics: Mapping[str, float]
    peak_mb: float | None
    wall_s: float | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its files show it; None for what is unknown (yet)."""

    folder: Path
    step: int
    total_steps: int | None
    epoch: int | None
    phase: str | None
    phase_s: float | None  # at least this long if `since_before`
    since_before: bool  # the phase began before the first look
    silent_s: float | None  # since its last sign of life
    last_sign_s: float | None  # the same for a run without a live process
    saving_s: float | None  # how long a checkpoint has been written in the background
    samples_per_s: float | None
    loss: float | None
    loss_smoothed: float | None
    losses: tuple[float, ...]  # the newest last; for a small curve
    seconds_left: float | None  # at the pace of the last minutes, mining and evaluations included
    evaluated: Evaluated | None
    checkpoint: Saved | None
    restarts: int
    incidents: tuple[Happened, ...]
    free_disk: int | None
    ended: Ended | None
    device: Device = field(default_factory=Device)  # its memory, at the last step
    governed: Governed | None = None

    @property
    def stale(self) -> bool:
        return self.silent_s is not None and self.silent_s >= STALE_S


_NEARLY_FULL: Final = 0.9
_SOON_S: Final = 300.0
_LITTLE_DISK: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class View:
    time: float  # Unix time
    name: str
    pid: int | None  # the root of the process tree; None if no process works
    processes: tuple[Process, ...]
    memory: TreeMemory | None  # of all processes; shared pages count once
    limit: NearestLimit | None
    history: tuple[Point, ...]  # anonymous and shared memory of the last minutes
    run: Run | None
    remarks: tuple[str, ...]  # what cannot be seen, and why
    machine: Machine | None = None  # what is left for all programs; None if no process works

    @property
    def alive(self) -> bool:
        return self.pid is not None

    @property
    def status(self) -> str:
        # Without a record of its end a run is "gone"; other processes have only "ended".
        if self.alive:
            starting = self.run is not None and self.run.phase == "start"
            return "starting" if starting else "running"
        if self.run is not None and self.run.ended is not None:
            return self.run.ended.status
        return "ended" if self.run is None else "gone"

    @property
    def cpu_percent(self) -> float | None:
        known = [p.cpu_percent for p in self.processes if p.cpu_percent is not None]
        return sum(known) if known else None

    @property
    def threads(self) -> int:
        return sum(process.threads for process in self.processes)


def warnings(view: View) -> Iterator[str]:
    """What the user should see, the worst first."""
    run, limit = view.run, view.limit
    for process in view.processes:
        if process.state == "stopped":
            yield (
                f"{process.role} {process.pid} is paused; to continue it: kill -CONT {process.pid}"
            )
    if run is not None and run.stale and run.silent_s is not None:
        yield f"no sign of life for {duration(run.silent_s)} in {run.phase}"
    if limit is not None and limit.seconds_left is not None and limit.seconds_left < _SOON_S:
        yield f"memory will be full in {duration(limit.seconds_left)} if it grows at this rate"
    elif limit is not None and limit.share >= _NEARLY_FULL:
        yield f"memory is almost full: {limit.share:.0%} of {size(limit.bytes)}"
    if run is not None and run.free_disk is not None and run.free_disk < _LITTLE_DISK:
        yield f"the disk of the run has only {size(run.free_disk)} free"


def document(view: View) -> dict[str, Any]:
    """For --json; `emit_json` writes it."""
    memory = view.memory
    return {
        "time": view.time,
        "name": view.name,
        "status": view.status,
        "pid": view.pid,
        "memory": None if memory is None else {**memory._asdict(), "held": memory.held},
        "machine": None if view.machine is None else view.machine._asdict(),
        "limit": None if view.limit is None else dataclasses.asdict(view.limit),
        "cpu_percent": view.cpu_percent,
        "processes": [dataclasses.asdict(process) for process in view.processes],
        "run": None if view.run is None else _run(view.run),
        "warnings": list(warnings(view)),
        "remarks": list(view.remarks),
    }


def _run(run: Run) -> dict[str, Any]:
    found = dataclasses.asdict(run)
    del found["losses"]
    return {**found, "device": run.device._asdict(), "stale": run.stale}
