"""events.jsonl: every call of a hook as a line of JSON, for programs that follow a run.

A run that is resumed replaces the file by one without the steps that are done again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ttf import Availability, EvalRecord, MetricsLog, StepRecord, hookimpl
from ttf_observers._kept import kept_until

FILE = "events.jsonl"
_log: MetricsLog | None = None


def availability() -> Availability:
    return Availability(ok=True)


@hookimpl
def ttf_run_started(run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
    global _log
    _close()
    _log = MetricsLog(
        run_dir / FILE,
        kept_until(run_dir, resumed_from),
        retry_s=config["checkpoint"]["retry_s"],
        area="events",
    )
    _write("run_started", run_dir=str(run_dir), resumed_from=resumed_from, config=dict(config))


@hookimpl
def ttf_step(record: StepRecord) -> None:
    _write("step", **asdict(record))


@hookimpl
def ttf_evaluated(record: EvalRecord) -> None:
    _write("evaluated", **asdict(record))


@hookimpl
def ttf_checkpointed(step: int, path: Path) -> None:
    _write("checkpointed", step=step, path=str(path))
    _opened().sync()


@hookimpl
def ttf_incident(incident: Mapping[str, Any]) -> None:
    # Not its own step: it is of the steps that were lost, and the line is to stay.
    _write("incident", incident=dict(incident))


@hookimpl
def ttf_run_finished(run_dir: Path, summary: Mapping[str, Any]) -> None:
    _write("run_finished", run_dir=str(run_dir), summary=dict(summary))
    _opened().make_durable()
    _close()


def _write(event: str, **what: Any) -> None:
    _opened().write({"event": event, "time": round(time.time(), 6), **what})


def _opened() -> MetricsLog:
    assert _log is not None, "ttf_run_started is the first hook of a run"
    return _log


def _close() -> None:
    # Also closes the log of an earlier run in this process that did not finish.
    global _log
    if _log is not None:
        _log.close()
        _log = None
