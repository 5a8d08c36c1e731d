"""A study whose blocks are jobs of an executor: a ticket is a job, and its results come at its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ttf.errors import GaveUp
from ttf.jobs import Executor, JobEnd
from ttf.process.error_document import from_document
from ttf.text.terminal import say
from ttf.tools.ab.hosts.blocks import Ticket
from ttf.tools.ab.hosts.giving import Giving
from ttf.tools.ab.hosts.job import job_of, told
from ttf.tools.ab.hosts.wire import finished_from
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import Cell
from ttf.tools.ab.study import ABLimits, ABStudy, Reason
from ttf.tools.studies.carry_out import Records, Watcher
from ttf.tools.studies.one_run import FinishedRun
from ttf.tools.tickets.own import Own

_LOOK_EVERY_S: Final = 0.1
_MOST_LOST: Final = 3  # jobs in a row before the study gives up


def carry_on(
    study: ABStudy,
    limits: ABLimits,
    watcher: Watcher[Cell, Sample],
    settled: Callable[[ABStudy], bool],
    executor: Executor,
    own: Own,
) -> Reason:
    """As `ttf.tools.ab.study.carry_on`; `limits.parallel` blocks run at a time."""
    giving = Giving(study, limits, settled, Records(study, watcher), 1)
    jobs = _Jobs(giving, executor, own)
    try:
        while True:
            jobs.start()
            if giving.finished:
                return giving.reason
            for end in executor.ended():
                jobs.ended(end)
            time.sleep(_LOOK_EVERY_S)
    finally:
        executor.close()


@dataclass
class _Jobs:
    giving: Giving
    executor: Executor
    own: Own
    running: dict[str, Ticket] = field(default_factory=dict)
    lost_in_a_row: int = 0

    def start(self) -> None:
        study, limits = self.giving.study, self.giving.limits
        while len(self.running) < limits.parallel:
            name = f"{study.folder.name}-{time.monotonic_ns():x}"
            tickets = self.giving.tickets(name, name, 1)
            if not tickets:
                return
            (ticket,) = tickets
            folder = study.folder.absolute()
            if ticket.attempt > 1:  # a job that was lost may still run somewhere
                folder /= f"attempt-{ticket.attempt}"
            self.running[name] = ticket
            self.executor.start(
                job_of(study.setup, ticket.cells, folder, name, keep_runs=limits.keep_runs)
            )

    def ended(self, end: JobEnd) -> None:
        ticket = self.running.pop(end.name, None)
        if ticket is None:
            return
        lines = list(told(end.output))
        error = next((line["error"] for line in lines if "error" in line), None)
        if error is not None:
            raise from_document(error)
        if end.exit_code == 0 and any("over" in line for line in lines):
            self.lost_in_a_row = 0
            hello: dict[str, Any] = next((line["own"] for line in lines if "own" in line), {})
            host, _ = self.own.compare(hello)
            for line in lines:
                if "result" in line:
                    self.giving.record(self._read(line["result"], ticket, host))
        else:
            self._lost(end, ticket)
        # Free again if it is not whole: perhaps another host runs it next, so it is done as a whole.
        self.giving.blocks.lost(end.name)

    def _read(self, found: object, ticket: Ticket, host: str) -> FinishedRun[Sample]:
        try:
            return finished_from(found, self.giving.study.setup, host=host, attempt=ticket.attempt)
        except (LookupError, TypeError, ValueError) as error:
            raise GaveUp(
                f"The job of block {ticket.block} on {host} told what cannot be used: {error}.",
                hint="Is it the same version of ttf there?",
            ) from error

    def _lost(self, end: JobEnd, ticket: Ticket) -> None:
        self.lost_in_a_row += 1
        how = "is lost" if end.exit_code is None else f"ended with exit code {end.exit_code}"
        where = f" on {end.where}" if end.where else ""
        last = " ".join(end.errors.split())[-300:]
        text = f"The job of block {ticket.block}{where} {how}"
        if self.lost_in_a_row >= _MOST_LOST:
            raise GaveUp(
                f"{text}; so did the {_MOST_LOST - 1} before it. The end of its output: {last}",
                hint=f"Continue with: {self.giving.study.resume_command(self.giving.study.folder)}",
            )
        say(f"{text}; the block is done again. {last}")
