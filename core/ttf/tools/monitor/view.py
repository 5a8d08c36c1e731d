"""What is seen at one look; and the same as one JSON document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ttf.machine.memory.tree import TreeMemory
from ttf.text.numbers import duration, size
from ttf.tools.monitor.processes import Process
from ttf.tools.monitor.room import Room
from ttf.tools.monitor.run import Run
from ttf.tools.monitor.trend import Point

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
    room: Room | None
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
    run, room = view.run, view.room
    for process in view.processes:
        if process.state == "stopped":
            yield (
                f"{process.role} {process.pid} is stopped: kill -CONT {process.pid} lets it go on"
            )
    if run is not None and run.stale and run.silent_s is not None:
        yield f"no sign of life for {duration(run.silent_s)} in {run.phase}"
    if room is not None and room.seconds_left is not None and room.seconds_left < _SOON_S:
        yield f"memory is full in {duration(room.seconds_left)} at this slope"
    elif room is not None and room.share >= _NEARLY_FULL:
        yield f"memory is nearly full: {room.share:.0%} of {size(room.limit)}"
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
        "limit": None if view.room is None else _limit(view.room),
        "cpu_percent": view.cpu_percent,
        "processes": [dataclasses.asdict(process) for process in view.processes],
        "run": None if view.run is None else _run(view.run),
        "warnings": list(warnings(view)),
        "remarks": list(view.remarks),
    }


def _limit(room: Room) -> dict[str, Any]:
    found = dataclasses.asdict(room)
    return {"bytes": found.pop("limit"), **found}


def _run(run: Run) -> dict[str, Any]:
    found = dataclasses.asdict(run)
    del found["losses"]
    return {**found, "stale": run.stale}
