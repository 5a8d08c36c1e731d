"""What is known about a failed attempt to mine: a `Death`, and the same in a sentence."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ttf.incidents.case import signal_name
from ttf.incidents.death import Death, KilledByUs
from ttf.incidents.gather import free_disk
from ttf.mining.job import Isolation, MiningJob
from ttf.mining.worker_process import WorkerProcess

_TAIL: Final = 2000
_STACKS: Final = 1000
_RAISED: Final = 1


def death_of(
    worker: WorkerProcess,
    *,
    settings: Mapping[str, Any],
    out: str | None = None,
    why: KilledByUs = "",
    reason: str = "",
    error: Mapping[str, Any] | None = None,
) -> Death:
    """Ends the worker, if it is not gone, and gathers what it left."""
    died = not worker.alive()
    code = worker.end()
    death = worker.witness.death(
        -signal.SIGKILL if code is None else code,  # None: the kernel holds it, killed as it is
        killed_by_us="" if died else why,
        reason=reason,
        error=error,
        folders=() if out is None else (Path(out),),
        settings=settings,
    )
    death = replace(death, stderr=worker.output.text(), raw_stderr=worker.output.data())
    # It raised, and we ended what was left of it: what Python itself would have ended with.
    raised = error is not None and not died and not why
    return replace(death, signal=None, exit_code=_RAISED) if raised else death


def death_in_process(error: Mapping[str, Any], out: str, settings: Mapping[str, Any]) -> Death:
    """With isolation "none" an attempt can only raise; the process is our own."""
    return Death(
        process="miner",
        pid=os.getpid(),
        time=time.time(),
        exit_code=_RAISED,
        error=error,
        free_disk=free_disk([Path(out)]),
        settings=settings,
    )


def settings_of(job: MiningJob, isolation: Isolation, fallback: Sequence[str]) -> dict[str, Any]:
    """The part of the configuration that remedies for a miner edit, by dotted keys."""
    return {
        "miner.name": job.miner,
        "miner.isolation": isolation,
        "miner.fallback": tuple(fallback),
        "miner.threads": job.context.threads,
        "miner.deterministic": job.context.deterministic,
        "memory.budget": job.context.budget_bytes,
    }


def how_it_ended(death: Death) -> str:
    if death.signal is not None:
        return f"died of {signal_name(death.signal)}"
    return f"ended with exit code {death.exit_code}"


def last_words(death: Death) -> str:
    """The end of its standard error, and where Python was."""
    told = death.stderr.strip()[-_TAIL:]
    stacks = _whole_lines(death.faulthandler.strip(), _STACKS)
    if told:
        words = f"The end of its standard error:\n{told}"
    else:
        words = "Its stacks:" if stacks else "It wrote nothing to stderr."
    return f"{words}\n{stacks}" if stacks else words


def _whole_lines(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rpartition("\n")[0]


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
