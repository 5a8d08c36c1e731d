"""Jobs as tasks: begun once, cancelled by a word that the worker looks for, lost with their worker.

dask starts a task anew if its worker dies. A job must not: it may have written files. So a task first
notes on the scheduler that it begins, and a second beginning is an end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import dask
from distributed import Client, Event, LocalCluster, get_client
from ttf import ConfigError, Job, JobEnd, run_job

from ttf_executor_dask.dask_executor import DaskOptions

_ASK_EVERY_S: Final = 0.5
_CLOSE_S: Final = 60.0
_MOST_TOLD: Final = 2000


class DaskExecutor:
    """`ttf.Executor` over one `distributed.Client`."""

    def __init__(self, options: DaskOptions, jobs: int) -> None:
        self._cluster: Any = None
        try:
            if not options.address:
                with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                    self._cluster = LocalCluster(
                        n_workers=jobs,
                        threads_per_worker=1,
                        memory_limit=0,  # ttf watches the memory of its runs
                        dashboard_address=None,
                        silence_logs=40,
                    )
            address = self._cluster or options.address
            self._client = Client(address, timeout=options.connect_s, set_as_default=False)
        except (OSError, ValueError) as error:
            if self._cluster is not None:
                self._cluster.close()
            raise ConfigError(
                f"No dask scheduler answers at {options.address!r}: {error}",
                hint="Start one with `dask scheduler`, and workers with `dask worker ADDRESS "
                "--nthreads 1`.",
            ) from error
        self._running: dict[str, Any] = {}

    def start(self, job: Job) -> None:
        told = {
            "name": job.name,
            "module": job.module,
            "words": list(job.words),
            "cwd": job.cwd,
            "environment": dict(job.environment),
        }
        self._running[job.name] = self._client.submit(
            work, told, key=f"ttf-{job.name}", pure=False, retries=0
        )

    def ended(self) -> Sequence[JobEnd]:
        over = [name for name, future in self._running.items() if future.done()]
        return [_end_of(name, self._running.pop(name)) for name in over]

    def cancel(self, name: str) -> None:
        future = self._running.get(name)
        if future is not None and not future.done():
            Event(_cancelled(name), client=self._client).set()

    def close(self) -> None:
        for name in self._running:
            self.cancel(name)
        until = time.monotonic() + _CLOSE_S
        while not all(f.done() for f in self._running.values()) and time.monotonic() < until:
            time.sleep(0.05)
        self._running.clear()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _end_of(name: str, future: Any) -> JobEnd:
    if future.status == "finished":
        return JobEnd(name=name, **future.result())
    why = "" if future.status == "cancelled" else repr(future.exception())
    return JobEnd(name=name, exit_code=None, errors=f"{future.status}: {why}"[-_MOST_TOLD:])


def _cancelled(name: str) -> str:
    return f"ttf-cancelled-{name}"


# --- in a worker ---------------------------------------------------------------------------------


def work(told: dict[str, Any]) -> dict[str, Any]:
    """One task: the job in a process tree that ends with its worker."""
    job = Job(**told)
    client = get_client()
    begun = Event(f"ttf-begun-{job.name}", client=client)
    if begun.is_set():
        raise RuntimeError("its worker was lost in the middle of the job")
    begun.set()
    end = run_job(job, _asked(Event(_cancelled(job.name), client=client)))
    return {
        "exit_code": end.exit_code,
        "output": end.output,
        "errors": end.errors,
        "where": end.where,
    }


def _asked(cancelled: Event) -> Callable[[], bool]:
    asked_at = 0.0
    found = False

    def ask() -> bool:
        nonlocal asked_at, found
        if time.monotonic() - asked_at > _ASK_EVERY_S:
            asked_at = time.monotonic()
            # A scheduler that does not answer ends the worker, and the job with it.
            with contextlib.suppress(OSError, TimeoutError):
                found = bool(cancelled.is_set())
        return found

    return ask
