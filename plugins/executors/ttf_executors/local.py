"""The executor `local`: jobs are processes of this host."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ttf import (
    Availability,
    Executor,
    ExecutorContext,
    ExecutorFactory,
    Job,
    JobEnd,
    NoOptions,
    StartedJob,
    hookimpl,
)


class LocalExecutor:
    """Every job is a process tree that ends with this process."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._waiting: list[Job] = []
        self._running: dict[str, StartedJob] = {}
        self._ended: list[JobEnd] = []

    def start(self, job: Job) -> None:
        self._waiting.append(job)
        self._begin()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            job = self._waiting.pop(0)
            try:
                self._running[job.name] = StartedJob(job)
            except OSError as error:
                where = socket.gethostname()
                self._ended.append(
                    JobEnd(name=job.name, exit_code=None, errors=str(error), where=where)
                )

    def ended(self) -> Sequence[JobEnd]:
        for name, started in list(self._running.items()):
            if started.is_over:
                del self._running[name]
                self._ended.append(started.result(where=socket.gethostname()))
        self._begin()
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, name: str) -> None:
        for job in [job for job in self._waiting if job.name == name]:
            self._waiting.remove(job)
            self._ended.append(JobEnd(name=name, exit_code=None, errors="it was cancelled"))
        if (started := self._running.get(name)) is not None:
            started.end()

    def close(self) -> None:
        self._waiting.clear()
        for started in self._running.values():
            started.end()
            started.result()
        self._running.clear()


class LocalFactory:
    """Processes of this host."""

    name = "local"
    options_type = NoOptions

    def availability(self) -> Availability:
        return Availability(ok=True)

    def create(self, options: NoOptions, context: ExecutorContext) -> Executor:
        return LocalExecutor(context.jobs)


@hookimpl
def ttf_executor(name: str) -> ExecutorFactory | None:
    return LocalFactory() if name == "local" else None
