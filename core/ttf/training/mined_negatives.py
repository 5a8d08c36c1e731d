"""Mined negatives during training: when to mine, for which queries, and how to draw.

The refresh steps cut a run into windows. At the start of a window, the queries of the window are
encoded (or taken from the training: `ttf.training.reused_queries`) and mined into a candidate
table, which is durable before its first use: `ttf.training.mined_table`. A table that a checkpoint
names is used.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.loader import DrawNegatives
from ttf.data.order import key
from ttf.mining.miner_results import CandidateTable
from ttf.mining.negatives import YieldReport, draw, remark_on_yield, yield_report
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.removing import remove_leftovers
from ttf.training.checkpoint import Totals
from ttf.training.mined_table import TableMaker
from ttf.training.miner_deaths import record_death
from ttf.training.refresh import Refreshes
from ttf.training.reused_queries import ReusedQueries
from ttf.training.schedule import Window, window_of
from ttf.training.session import Session

_FEW = "few negatives"


class MinedNegatives:
    """Keeps the candidate table of the current window; `table_key` goes into checkpoints.

    Owns the miner's worker process and the folder of tables. Call it from the main thread: the
    worker ends with the thread that started it. `close` it: the worker stays alive between rounds.
    """

    def __init__(self, session: Session, metrics: MetricsLog, totals: Totals) -> None:
        self._session = session
        self._metrics = metrics
        self._totals = totals
        self._settings = session.config.miner
        self._folder = session.folder.candidates
        self._say = session.reporter.note
        self._table: CandidateTable | None = None
        self._window: Window | None = None
        keeps = self._settings.keeps_queries
        self._reused = ReusedQueries(session, totals) if keeps else None
        self._refreshes = Refreshes(session, totals) if self._settings.refresh == "auto" else None
        self.table_key = ""  # A resumed run sets it to the table of its current window.
        self._workers = MinerWorkers(
            isolation=self._settings.isolation,
            say=self._say,
            logs=session.folder.incidents,
            beat=session.link.check_stop,
            on_death=partial(record_death, session),
        )
        self._make = TableMaker(session, totals, self._workers, self._reused)

    def __call__(self, step: int) -> tuple[DrawNegatives | None, int]:
        """Returns how to draw, and the step until which that holds."""
        window = self._window_of(step)
        if not window.mined:
            self.table_key = ""
            return None, window.stop
        if window != self._window:
            self._table = self._open_or_mine(window, step)
            self._session.meet()
            self._window = window = self._window_of(step)
        assert self._table is not None
        return partial(self._draw, self._table), window.stop

    def table_for(self, step: int) -> str:
        """Name of the table that a run resumed at `step` loads; empty if it mines one, or needs
        none."""
        window = self._window_of(step)
        return self.table_key if window.mined and step > window.start else ""

    def keep_queries(self, step: int, queries_SD: torch.Tensor) -> None:
        """Keeps the vectors that a step computed, if the next round uses them."""
        window = self._window_of(step)
        decided = self._session.decided
        soon = window.stop - step <= decided.order.steps_per_epoch
        if self._reused is not None and soon and window.stop < decided.total_steps:
            self._reused.keep(step, queries_SD)

    def is_due(self, step: int) -> bool:
        """True if a round begins here."""
        window = self._window_of(step)
        return window.mined and window != self._window and not self.table_for(step)

    def make_durable(self) -> None:
        """What must not be behind a checkpoint. For the checkpoint thread. Raises StorageError."""
        if self._reused is not None:
            self._reused.kept.make_durable()

    def remove_unneeded(self) -> None:
        """What no checkpoint of the run needs any more. Raises StorageError."""
        if self._reused is not None:
            self._reused.remove_unneeded()

    def release(self) -> None:
        """Frees what mining holds between rounds: the idle worker, or the index in memory."""
        self._workers.release()

    @property
    def worker(self) -> int | None:
        """Process id of the miner's worker, if there is one."""
        return self._workers.pid

    def close(self) -> None:
        """Ends the worker, and removes tables that could not be removed before."""
        self._workers.close()
        if self._reused is not None:
            self._reused.kept.close()
        remove_leftovers(self._folder, self._session.folder.path)

    def _window_of(self, step: int) -> Window:
        decided = self._session.decided
        window = window_of(step, decided.total_steps, decided.order, self._settings)
        return window if self._refreshes is None else self._refreshes.window_of(step, window)

    def _draw(
        self, table: CandidateTable, step: int, rows: NDArray[np.int64], known: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        # In the gather thread: reads the table and the configuration, nothing that changes.
        config = self._session.config
        lot = key(config.train.seed, "negatives", step)
        ids, _ = draw(table, rows, known, config.negatives, config.miner.num_negatives, lot)
        return ids

    def _open_or_mine(self, window: Window, step: int) -> CandidateTable:
        if self.table_key and step > window.start:
            return CandidateTable.load(self._folder / self.table_key)
        session = self._session
        stop = window.stop if self._refreshes is None else self._refreshes.latest_stop(window)
        rows = session.decided.order.rows_between(window.start, stop)
        table = self._make(rows, step)
        if self._refreshes is not None:
            window = self._refreshes.decide(window, table)
        known = session.data.train.known(rows)
        report = yield_report(table, known, session.config.negatives)
        session.link.flight.mined(step, window.stop)
        self._make.round.passing = table.passing
        self._record(step, report)
        self._judge(table, report, step)
        self.table_key = table.key
        return table

    def _judge(self, table: CandidateTable, report: YieldReport, step: int) -> None:
        notes = self._totals.notes
        notes.pop(_FEW, None)  # of the round before
        remark = remark_on_yield(table, report, self._session.config.negatives)
        if remark:
            notes[_FEW] = f"At step {step:,}: {remark}"
            self._say(notes[_FEW])

    def _record(self, step: int, report: YieldReport) -> None:
        self._metrics.write(
            {
                "type": "mining",
                "time": round(time.time(), 3),
                "step": step,
                "miner": self._make.miner,
                "queries": report.queries,
                "yield": report.kept_share,
                "with_survivor": report.with_survivor,
                "survivors": report.survivors,
                "negative_score": report.negative_score,
                "positive_score": report.positive_score,
                **vars(self._make.round),
                **({} if self._refreshes is None else self._refreshes.figures),
            }
        )
