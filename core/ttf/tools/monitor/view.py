"""What is seen at one look, at a run and at processes; and the same as one JSON document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.machine.memory.tree import TreeMemory
from ttf.text.numbers import duration, size
from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.processes import Process
from ttf.tools.monitor.trend import Point

STALE_S: Final = 10.0
"""A silence that is worth a word; what counts as a hang is the supervisor's to decide."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    step: int
    metrics: Mapping[str, float]


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
class Ended:
    """How a run that is over ended; see summary.json."""

    status: str
    exit_code: int | None
    problem: str
    hint: str
    metrics: Mapping[str, float]
    peak_mb: float | None
    wall_s: float | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its files show it; None for what they do not say (yet)."""

    folder: Path
    step: int
    total_steps: int | None
    epoch: int | None
    phase: str | None
    phase_s: float | None
    """For how long it has been at it; at least, where `since_before`."""
    since_before: bool
    """It was at it already when we began to look."""
    silent_s: float | None
    """Since its last sign of life."""
    last_sign_s: float | None
    """The same of a run that nobody is seen to work on."""
    saving_s: float | None
    """For how long a checkpoint has been written beside the training."""
    samples_per_s: float | None
    loss: float | None
    loss_smoothed: float | None
    losses: tuple[float, ...]
    """The newest last; what a small curve is made of."""
    seconds_left: float | None
    """At the pace of the last minutes, mining and evaluations included."""
    evaluated: Evaluated | None
    checkpoint: Saved | None
    restarts: int
    incidents: tuple[Happened, ...]
    free_disk: int | None
    ended: Ended | None

    @property
    def stale(self) -> bool:
        return self.silent_s is not None and self.silent_s >= STALE_S


_NEARLY_FULL: Final = 0.9
_SOON_S: Final = 300.0
_LITTLE_DISK: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class View:
    time: float
    """Unix time."""
    name: str
    pid: int | None
    """The process that all others descend from; None where nobody is at work."""
    processes: tuple[Process, ...]
    memory: TreeMemory | None
    """Of all of them together; shared pages once."""
    limit: NearestLimit | None
    history: tuple[Point, ...]
    """Anonymous and shared memory of the last minutes."""
    run: Run | None
    remarks: tuple[str, ...]
    """What cannot be seen, and why."""

    @property
    def alive(self) -> bool:
        return self.pid is not None

    @property
    def status(self) -> str:
        """'starting', 'running', how a run ended, or "gone" where nobody wrote that; "ended"
        of a process that is no run."""
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
    """What should not be overlooked, the worst first."""
    run, limit = view.run, view.limit
    for process in view.processes:
        if process.state == "stopped":
            yield (
                f"{process.role} {process.pid} is stopped: kill -CONT {process.pid} lets it go on"
            )
    if run is not None and run.stale and run.silent_s is not None:
        yield f"no sign of life for {duration(run.silent_s)} in {run.phase}"
    if limit is not None and limit.seconds_left is not None and limit.seconds_left < _SOON_S:
        yield f"memory is full in {duration(limit.seconds_left)} at this slope"
    elif limit is not None and limit.share >= _NEARLY_FULL:
        yield f"memory is nearly full: {limit.share:.0%} of {size(limit.bytes)}"
    if run is not None and run.free_disk is not None and run.free_disk < _LITTLE_DISK:
        yield f"only {size(run.free_disk)} free where the run is"


def document(view: View) -> dict[str, Any]:
    """For --json; `emit_json` writes it."""
    memory = view.memory
    return {
        "time": view.time,
        "name": view.name,
        "status": view.status,
        "pid": view.pid,
        "memory": None if memory is None else {**memory._asdict(), "held": memory.held},
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
    return {**found, "stale": run.stale}
