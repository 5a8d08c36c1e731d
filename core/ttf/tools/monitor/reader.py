"""Reads a run's folder repeatedly: opens nothing for writing, takes no lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ttf.errors import EntryRefused
from ttf.machine.memory.tree import Device
from ttf.rundir.flight_record import Flight
from ttf.rundir.incident_files import incident_folders, read_incident
from ttf.rundir.run_record import RunRecord
from ttf.rundir.supervision import Journal
from ttf.rundir.verified_folders import CHECKPOINT, newest_first, step_of
from ttf.tools.monitor.progress import Progress
from ttf.tools.monitor.view import Ended, Happened, Run, Saved

T = TypeVar("T")


class RunReader:
    """Reads one folder. Unchanged files are not parsed again."""

    def __init__(self, path: Path) -> None:
        self.record = RunRecord(path)
        self.folder = self.record.folder
        self.progress = Progress(self.folder)
        self._phase: tuple[str, int] | None = None
        self._phase_since = 0.0
        self._since_before = True
        self._kept: dict[Path, tuple[int, Any]] = {}  # by file: time of change and content

    def look(self, now: float, *, alive: bool) -> Run:
        """`alive`: a process works on the run."""
        progress = self.progress
        progress.look(now)
        flight = self.record.flight()
        total = self._total_steps(flight)
        checkpoint = self._checkpoint(now)
        step = self._step(flight, checkpoint)
        self._follow_phase(flight, now)
        beats = flight if alive else None
        return Run(
            folder=self.folder.path,
            step=step,
            total_steps=total,
            epoch=progress.last.get("epoch"),
            phase=None if beats is None else beats.phase,
            phase_s=now - self._phase_since if beats else None,
            since_before=self._since_before,
            silent_s=_ago(None if beats is None else beats.monotonic_s),
            last_sign_s=None if flight is None or alive else max(0.0, now - flight.time),
            saving_s=_ago(None if beats is None else beats.saving_since_s),
            samples_per_s=progress.samples_per_s(),
            loss=progress.last.get("loss"),
            loss_smoothed=progress.loss_smoothed(),
            losses=tuple(progress.losses),
            seconds_left=progress.seconds_left(step, total) if alive else None,
            evaluated=progress.evaluated,
            governed=progress.governed,
            checkpoint=checkpoint,
            restarts=self._restarts(),
            incidents=self._incidents(now),
            free_disk=free_bytes(self.folder.path),
            ended=None if alive else self._ended(flight),
            device=Device() if beats is None else Device(beats.allocated, beats.cached),
        )

    def _step(self, flight: Flight | None, checkpoint: Saved | None) -> int:
        # A trainer that is starting does not know its step: it will continue from the checkpoint.
        if flight is None:
            return self.progress.last.get("step", 0)
        if flight.phase == "start" and checkpoint is not None:
            return max(flight.step, checkpoint.step)
        return flight.step

    def _follow_phase(self, flight: Flight | None, now: float) -> None:
        # If two looks see the same phase at the same step, it is the same phase.
        if flight is None:
            self._phase = None
            return
        phase = flight.phase, flight.step
        if phase != self._phase:
            self._since_before = self._phase is None
            self._phase = phase
            self._phase_since = min(now, now - (_ago(flight.monotonic_s) or 0.0))

    def _total_steps(self, flight: Flight | None) -> int | None:
        """The trainer's number; before that, the configuration's."""
        if flight is not None and flight.total_steps:
            return flight.total_steps
        return self._cached(self.folder.config, self.record.total_steps)

    def _restarts(self) -> int:
        path = self.folder.supervision
        journal = self._cached(path, lambda: Journal.read(path))
        return 0 if journal is None else journal.restarts

    def _checkpoint(self, now: float) -> Saved | None:
        try:
            for path in newest_first(self.folder.checkpoints):
                written = (path / CHECKPOINT).stat().st_mtime
                return Saved(step=step_of(path), age_s=max(0.0, now - written))
        except (OSError, EntryRefused):  # it is being pruned at this moment, or is a link
            return None
        return None

    def _incidents(self, now: float) -> tuple[Happened, ...]:
        folder = self.folder.incidents
        names = incident_folders(folder)
        try:
            changed = max((path.stat().st_mtime_ns for path in names), default=0) + len(names)
        except OSError:  # removed while we look
            return ()
        if self._kept.get(folder, (-1, None))[0] != changed:
            self._kept[folder] = changed, list(map(read_incident, names))
        return tuple(
            Happened(
                id=found["id"],
                name=found["class"],
                process=found["process"],
                remedy=found["remedy"],
                age_s=max(0.0, now - found["time"]) if "time" in found else None,
            )
            for found in self._kept[folder][1]
        )

    def _ended(self, flight: Flight | None) -> Ended | None:
        """None if not recorded. A summary older than the last sign of life is of an earlier attempt."""
        path = self.folder.summary
        summary = self._cached(path, self.record.summary)
        if summary is None:
            return None
        if flight is not None and path.stat().st_mtime < flight.time - 1:
            return None
        return Ended(
            status=summary.get("status", "unknown"),
            exit_code=summary.get("exit_code"),
            problem=summary.get("problem", ""),
            hint=summary.get("hint", ""),
            metrics=summary.get("metrics", {}),
            peak_mb=summary.get("peak_anon_mb"),
            wall_s=summary.get("wall_s"),
        )

    def _cached(self, path: Path, read: Callable[[], T | None]) -> T | None:
        """The content of a file, read again after a change; None if it cannot be read."""
        try:
            # Before it is read: what replaces the file in between is read now and once more.
            changed = path.stat().st_mtime_ns
        except OSError:
            return None
        kept = self._kept.get(path)
        if kept is None or kept[0] != changed:
            value = read()
            if not value:  # half of it is there: the next look tries again
                return None
            self._kept[path] = kept = changed, value
        found: T = kept[1]
        return found


def free_bytes(folder: Path) -> int | None:
    try:
        stat = os.statvfs(folder)
    except OSError:
        return None
    return stat.f_bavail * stat.f_frsize


def _ago(monotonic_s: float | None) -> float | None:
    # On the monotonic clock, which all processes of a machine share.
    return None if monotonic_s is None else max(0.0, time.monotonic() - monotonic_s)
