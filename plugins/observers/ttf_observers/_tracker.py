"""What the sinks of experiment trackers share: a tracker gets each step once, whatever happens.

A tracker can forget nothing, so it is told only of what can no longer be done again: at a checkpoint
of step N, the steps before N. Until then, points wait in a file of the run, which is cut at the
checkpoint when the run is resumed, as its metrics are. After a kill, the tracker itself is asked for
the last step that it has, and the rest is sent.

    step, evaluated ──> RUN/tracker-NAME.jsonl ──> checkpoint, end of the run ──> tracker
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ttf import (
    Availability,
    MetricsLog,
    PluginUnavailable,
    fsync_file,
    hookimpl,
    list_incidents,
    open_inside,
    temporary_file,
)
from ttf_observers._kept import kept_until

if TYPE_CHECKING:
    from ttf import EvalRecord, StepRecord

Point = tuple[int, float, Mapping[str, float]]
"""Step, time in seconds, values by name."""

_KEY: Final = re.compile(r"[0-9a-f]{16}")


class Tracker(Protocol):
    """One run in a tracker. Opened anew by every process of the run."""

    def last_step(self) -> int | None:
        """The last step that it has; None if it has none."""

    def send(self, points: list[Point]) -> None:
        """In the order of their steps; each step once."""

    def finish(self, status: str, texts: Mapping[str, str]) -> None: ...


class TrackerSink:
    """The hooks of an observer. `opened(run_dir, config)` returns its tracker."""

    def __init__(
        self,
        name: str,
        available: Callable[[], Availability],
        opened: Callable[[Path, Mapping[str, Any]], Tracker],
    ) -> None:
        self._name, self._available, self._opened = name, available, opened
        self._log: MetricsLog | None = None
        self._tracker: Tracker | None = None
        self._waiting: dict[int, tuple[float, dict[str, float]]] = {}
        self._run_dir = Path()

    def availability(self) -> Availability:
        return self._available()

    @hookimpl
    def ttf_run_started(self, run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
        self.close()
        state = self._available()
        if not state.ok:
            raise PluginUnavailable(f"{state.reason}: {state.fix}", hint=state.fix)
        self._run_dir = run_dir
        path = run_dir / f"tracker-{self._name}.jsonl"
        kept = kept_until(run_dir, resumed_from)
        retry_s = config["checkpoint"]["retry_s"]
        self._log = MetricsLog(path, kept, retry_s=retry_s, area=f"tracker-{self._name}")
        self._tracker = self._opened(run_dir, config)
        last = self._tracker.last_step()
        self._waiting = {}
        for line in _lines(path, run_dir):
            if last is None or line["step"] > last:
                self._wait(line["step"], line["time"], line["values"])

    @hookimpl
    def ttf_step(self, record: StepRecord) -> None:
        values = {
            "train/loss": record.loss,
            "train/lr": record.lr,
            "train/grad_norm": record.grad_norm,
            "train/epoch": record.epoch,
            "perf/samples_per_s": record.samples_per_s,
            "perf/step_s": record.seconds,
            **{_tag(name): value for name, value in record.extra.items()},
        }
        self._add(record.step, values)

    @hookimpl
    def ttf_evaluated(self, record: EvalRecord) -> None:
        values = {f"val/{name}": value for name, value in record.metrics.items()}
        self._add(record.step, {**values, "perf/evaluation_s": record.seconds})

    @hookimpl
    def ttf_checkpointed(self, step: int, path: Path) -> None:
        assert self._log is not None
        self._log.sync()
        self._deliver(before=step)  # an evaluation of this very step may follow

    @hookimpl
    def ttf_run_finished(self, run_dir: Path, summary: Mapping[str, Any]) -> None:
        assert self._log is not None and self._tracker is not None
        self._log.make_durable()
        status = str(summary.get("status", ""))
        # A run that can be resumed from a checkpoint does the steps after it again.
        if status == "finished":
            self._deliver(before=None)
        incidents = list_incidents(run_dir / "incidents")
        texts = {"status": status, "exit_code": str(summary.get("exit_code", ""))}
        texts["incidents"] = ", ".join(f"{i['id']} {i['class']}" for i in incidents)
        self._tracker.finish(status, {name: text for name, text in texts.items() if text})
        self.close()

    def close(self) -> None:
        """Also of an earlier run in this process that did not finish."""
        if self._log is not None:
            self._log.close()
        self._log = self._tracker = None

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        assert self._log is not None, "ttf_run_started is the first hook of a run"
        now = round(time.time(), 3)
        finite = {name: float(v) for name, v in values.items() if v - v == 0}
        self._log.write({"step": step, "time": now, "values": finite})
        self._wait(step, now, finite)

    def _wait(self, step: int, at: float, values: Mapping[str, float]) -> None:
        self._waiting.setdefault(step, (at, {}))[1].update(values)

    def _deliver(self, before: int | None) -> None:
        assert self._tracker is not None
        ready = sorted(s for s in self._waiting if before is None or s < before)
        if ready:
            self._tracker.send([(step, *self._waiting[step]) for step in ready])
        for step in ready:
            del self._waiting[step]


def run_key(run_dir: Path) -> str:
    """A name for the run that no other run has, and that stays when the run is resumed."""
    path = run_dir / "tracker-key.txt"
    with contextlib.suppress(FileNotFoundError), open_inside(path, run_dir) as file:
        key = file.read(64).decode("ascii", "replace").strip()
        if _KEY.fullmatch(key):
            return key
    key = secrets.token_hex(8)
    temporary = temporary_file(path)
    try:
        os.write(temporary.fd, key.encode())
        fsync_file(temporary.fd)
        temporary.path.replace(path)
    finally:
        temporary.close()
    return key


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A configuration as texts by dotted key."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _lines(path: Path, run_dir: Path) -> list[dict[str, Any]]:
    with open_inside(path, run_dir) as file:
        return [json.loads(line) for line in file]


def _tag(name: str) -> str:
    # Times and rates describe the machine, all other values the training.
    return f"perf/{name}" if name.endswith("_s") else f"train/{name.removeprefix('train_')}"
