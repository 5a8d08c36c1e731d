"""The types of executors, which run jobs somewhere: on this host, on workers, on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ttf.contracts import Factory


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command line for an executor: `python -m module words...`, with the Python of the host that
    runs it."""

    name: str
    """Unique in its executor; may be the name of a file."""
    module: str
    words: Sequence[str] = ()
    cwd: str
    """Has the same files on every host."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Besides what the host has."""


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a job ended."""

    name: str
    exit_code: int | None
    """128 + N after signal N. None: its worker or its host is gone, and nobody knows."""
    output: bytes = b""
    """All that it wrote to standard output."""
    errors: str = ""
    """The end of its standard error, or why it could not run."""
    where: str = ""
    """The host that ran it."""


@dataclass(frozen=True, kw_only=True)
class ExecutorContext:
    """What a command gives its executor."""

    jobs: int
    """The most jobs at a time."""


class Executor(Protocol):
    """Runs jobs somewhere. Every method is called in one thread and returns at once, but `close`."""

    def start(self, job: Job) -> None:
        """Runs it once, now or when there is room. A job that may have begun is never begun again:
        if it is lost, `ended` says so."""

    def ended(self) -> Sequence[JobEnd]:
        """Those that ended since the last call, each once; also cancelled ones."""

    def cancel(self, name: str) -> None:
        """Ends it with all of its processes; nothing, if it is over."""

    def close(self) -> None:
        """Cancels what still runs and frees everything; when it returns, no job runs any more."""


class ExecutorFactory(Factory, Protocol):
    def create(self, options: Any, context: ExecutorContext) -> Executor:
        """Raises ConfigError if there is nobody who could run a job."""
