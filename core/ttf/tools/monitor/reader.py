"""Reads a run's folder again and again: opens nothing for writing, takes no lock."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ttf.incidents.writing import list_incidents
from ttf.rundir.checkpoint_files import MANIFEST, newest_first, step_of
from ttf.rundir.durable import read_json
from ttf.rundir.flight_record import Flight, read_flight
from ttf.rundir.folder import RunFolder
from ttf.tools.monitor.progress import Progress
from ttf.tools.monitor.run import Ended, Happened, Run, Saved, metrics_of, number, whole

T = TypeVar("T")


class RunReader:
    """One folder. What did not change is not parsed again."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.progress = Progress(self.folder.metrics, self.folder.memory)
        self._phase: tuple[str, int] | None = None
        self._phase_since, self._since_before = 0.0, True
        self._kept: dict[Path, tuple[int, Any]] = {}

    def look(self, now: float, *, alive: bool) -> Run:
        """`alive`: some process works on it."""
        progress = self.progress
        progress.look(now)
        flight = read_flight(self.folder.flight)
        total = self._cached(self.folder.config, self._total_steps)
        checkpoint = self._checkpoint(now)
        step = self._step(flight, checkpoint)
        self._follow_phase(flight, now)
        beats = flight if alive else None
        return Run(
            folder=self.folder.path,
            step=step,
            total_steps=total,
            epoch=whole(progress.last.get("epoch")),
            phase=None if beats is None else beats.phase,
            phase_s=now - self._phase_since if beats else None,
            since_before=self._since_before,
            silent_s=_ago(None if beats is None else beats.monotonic_s),
            last_sign_s=None if flight is None or alive else max(0.0, now - flight.time),
            saving_s=_ago(None if beats is None else beats.saving_since_s),
            samples_per_s=progress.samples_per_s(),
            loss=number(progress.last.get("loss")),
            loss_smoothed=progress.loss_smoothed(),
            losses=tuple(progress.losses),
            seconds_left=progress.seconds_left(step, total) if alive else None,
            evaluated=progress.evaluated,
            checkpoint=checkpoint,
            restarts=self._restarts(),
            incidents=self._incidents(now),
            free_disk=free_bytes(self.folder.path),
            ended=None if alive else self._ended(flight),
        )

    def _step(self, flight: Flight | None, checkpoint: Saved | None) -> int:
        """A trainer that is starting does not know yet; it will go on from the checkpoint."""
        if flight is None:
            return whole(self.progress.last.get("step")) or 0
        if flight.phase == "start" and checkpoint is not None:
            return max(flight.step, checkpoint.step)
        return flight.step

    def _follow_phase(self, flight: Flight | None, now: float) -> None:
        """A phase that has the same step at two looks has been the same one."""
        if flight is None:
            self._phase = None
            return
        phase = flight.phase, flight.step
        if phase != self._phase:
            self._since_before = self._phase is None
            self._phase = phase
            self._phase_since = min(now, now - (_ago(flight.monotonic_s) or 0.0))

    def _total_steps(self) -> int | None:
        """As the trainer counts them, from the settled configuration in run.toml."""
        import tomllib

        text = self.folder.config.read_text(encoding="utf-8")
        train = tomllib.loads(text)["train"]
        if train.get("steps"):
            return int(train["steps"])
        pairs = int(read_json(self.folder.manifest)["data"]["train_pairs"])
        samples = int(train["batch_size"]) * int(train["accumulate"])
        return int(train["epochs"]) * (pairs // samples)

    def _restarts(self) -> int:
        found = self._cached(self.folder.supervision, lambda: read_json(self.folder.supervision))
        value = found.get("restarts") if isinstance(found, Mapping) else None
        return value if isinstance(value, int) else 0

    def _checkpoint(self, now: float) -> Saved | None:
        try:
            for path in newest_first(self.folder.checkpoints):
                written = (path / MANIFEST).stat().st_mtime
                return Saved(step=step_of(path), age_s=max(0.0, now - written))
        except OSError:  # it is being pruned at this moment
            return None
        return None

    def _incidents(self, now: float) -> tuple[Happened, ...]:
        folder = self.folder.incidents
        try:
            names = [path for path in folder.iterdir() if path.name.isdigit()]
        except OSError:
            return ()
        changed = max((path.stat().st_mtime_ns for path in names), default=0) + len(names)
        if self._kept.get(folder, (-1, None))[0] != changed:
            listed = list_incidents(folder)
            times = [_time_of(folder / str(entry["id"])) for entry in listed]
            self._kept[folder] = changed, list(zip(listed, times, strict=True))
        return tuple(
            Happened(
                id=str(entry["id"]),
                name=str(entry["class"]),
                process=str(entry["process"]),
                remedy=entry["remedy"],
                age_s=None if at is None else max(0.0, now - at),
            )
            for entry, at in self._kept[folder][1]
        )

    def _ended(self, flight: Flight | None) -> Ended | None:
        """None where nobody wrote how it ended: a summary that is older than the last sign of life
        is of an earlier attempt."""
        path = self.folder.summary
        summary = self._cached(path, lambda: read_json(path))
        if not isinstance(summary, Mapping):
            return None
        if flight is not None and path.stat().st_mtime < flight.time - 1:
            return None
        return Ended(
            status=str(summary.get("status", "unknown")),
            exit_code=whole(summary.get("exit_code")),
            problem=str(summary.get("problem") or ""),
            hint=str(summary.get("hint") or ""),
            metrics=metrics_of(summary.get("metrics")),
            peak_mb=number(summary.get("peak_anon_mb")),
            wall_s=number(summary.get("wall_s")),
        )

    def _cached(self, path: Path, read: Callable[[], T]) -> T | None:
        """What was read of a file, read again when it changed; None where it cannot be read."""
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return None
        kept = self._kept.get(path)
        if kept is None or kept[0] != changed:
            value: T | None = None
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                value = read()
            if value is None:  # half of it is there: the next look tries again
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
    """Seconds since then, on the clock that all processes of a machine share."""
    return None if monotonic_s is None else max(0.0, time.monotonic() - monotonic_s)


def _time_of(folder: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        value = read_json(folder / "incident.json")
        return number(value.get("time")) if isinstance(value, Mapping) else None
    return None
