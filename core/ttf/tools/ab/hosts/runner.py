"""Runs the repeats of a ticket on this host, a few at a time, without waiting for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ttf.tools.ab.repeat import finish_repeat, start_repeat
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import ABSetup, Cell
from ttf.tools.studies.carry_out import end_all
from ttf.tools.studies.one_run import FinishedRun, StartedRun


@dataclass(kw_only=True)
class CellRunner:
    setup: ABSetup
    folder: Path  # runs/ is made in it
    parallel: int
    keep_runs: bool
    allow_remote: bool = True
    starts: Callable[[Cell], None] = lambda cell: None
    waiting: list[Cell] = field(default_factory=list)
    running: list[tuple[Cell, StartedRun]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def add(self, cells: Iterable[Cell]) -> None:
        self.waiting += cells

    def look(self, *, begin: bool) -> list[FinishedRun[Sample]]:
        """Those that have ended. `begin`: more may be started."""
        ended: list[FinishedRun[Sample]] = []
        while begin and self.waiting and len(self.running) < self.parallel:
            cell = self.waiting.pop(0)
            self.starts(cell)
            started = start_repeat(self.setup, cell, self.folder, allow_remote=self.allow_remote)
            if isinstance(started, FinishedRun):
                ended.append(started)
            else:
                self.running.append((cell, started))
        for cell, run in [(cell, run) for cell, run in self.running if run.is_over]:
            self.running.remove((cell, run))
            run.wait()
            finished = finish_repeat(self.setup, cell, run, keep=self.keep_runs)
            folder = str(run.folder)
            ended.append(replace(finished, run=replace(finished.run, folder=folder)))
        return ended

    def end(self, blocks: Iterable[int] | None = None) -> None:
        """Ends what runs, of these blocks or of all, and forgets what waits."""
        ended = None if blocks is None else set(blocks)

        def goes(cell: Cell) -> bool:
            return ended is None or cell.block in ended

        runs = [run for cell, run in self.running if goes(cell)]
        self.running = [(cell, run) for cell, run in self.running if not goes(cell)]
        self.waiting = [cell for cell in self.waiting if not goes(cell)]
        end_all(runs)
