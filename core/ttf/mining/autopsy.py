"""What is known about a failed attempt to mine: a `Death`, and the same in a sentence."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.incidents.death import Death, KilledByUs
from ttf.mining.job import Isolation, MiningJob
from ttf.mining.process import WorkerProcess

_TAIL: Final = 2000
_STACKS: Final = 1000
_SHARED_MEMORY: Final = "/dev/shm"


def death_of(
    worker: WorkerProcess,
    *,
    settings: Mapping[str, Any],
    out: str = "",
    why: KilledByUs = "",
    reason: str = "",
    error: Mapping[str, Any] | None = None,
) -> Death:
    """Ends the worker, if it is not gone, and gathers what it left."""
    died = not worker.alive()
    code = worker.end()
    oom_kills, oom_source = worker.oom_rise()
    by_itself = died or code is None
    return Death(
        process="miner",
        pid=worker.pid,
        time=time.time(),
        # An attempt that ended in an answer, or an error, of a living process has no exit.
        signal=-code if code is not None and code < 0 and (by_itself or why) else None,
        exit_code=code if code is not None and code >= 0 else None,
        killed_by_us="" if died else why,
        reason=reason,
        stderr=worker.output.text(),
        raw_stderr=worker.output.data(),
        faulthandler=worker.stacks_text(),
        error=error,
        oom_kills=oom_kills,
        oom_source=oom_source,
        free_disk=_free_disk(out),
        settings=settings,
    )


def death_in_process(error: Mapping[str, Any], out: str, settings: Mapping[str, Any]) -> Death:
    """With isolation "none" an attempt can only raise; the process is our own."""
    return Death(
        process="miner",
        pid=os.getpid(),
        time=time.time(),
        error=error,
        free_disk=_free_disk(out),
        settings=settings,
    )


def settings_of(job: MiningJob, isolation: Isolation) -> dict[str, Any]:
    """The part of the configuration that remedies for a miner edit, by dotted keys."""
    return {
        "miner.name": job.miner,
        "miner.isolation": isolation,
        "miner.threads": job.context.threads,
        "miner.deterministic": job.context.deterministic,
        "memory.budget": job.context.budget_bytes,
    }


def how_it_ended(death: Death) -> str:
    if death.signal is not None:
        return f"died of {_signal_name(death.signal)}"
    if death.exit_code is not None:
        return f"ended with exit code {death.exit_code}"
    return "hung, and even a kill did not end it"


def last_words(death: Death) -> str:
    """The end of its standard error, and where Python was."""
    told = death.stderr.strip()[-_TAIL:]
    words = f"The end of its standard error:\n{told}" if told else "It wrote nothing to stderr."
    stacks = death.faulthandler.strip()[:_STACKS]
    return f"{words}\n{stacks}" if stacks else words


def keep_stderr(death: Death, logs: Path) -> str:
    """Writes it to `miner-<n>.stderr.txt`; a sentence that says where, or why not."""
    if not death.raw_stderr:
        return ""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        paths = (logs / f"miner-{number}.stderr.txt" for number in itertools.count(1))
        path = next(path for path in paths if not path.exists())
        path.write_bytes(death.raw_stderr)
    except OSError as error:
        return f" Its standard error could not be kept in {logs}: {error.strerror}."
    return f" Its standard error is kept in {path}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _free_disk(out: str) -> dict[str, int]:
    free = {}
    for folder in (out, _SHARED_MEMORY):
        try:
            free[folder] = shutil.disk_usage(folder).free
        except OSError:  # not there, e.g. on macOS: nothing is claimed
            continue
    return free
