"""Mined negatives during training: when to mine, for which queries, and how to draw.

The refresh steps cut a run into windows. At the start of a window, the queries of the window are
encoded (or taken from the training: `ttf.training.reused_queries`) and mined into a candidate
table, which is durable before its first use. A table's name is a hash of its inputs (weights, data,
miner, rows). A table that exists already, from before a restart or named by a checkpoint, is used
and not mined again; a round that a death interrupted goes on (`ttf.training.mining_round`).
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.loader import DrawNegatives
from ttf.data.order import key
from ttf.errors import ArtifactDamaged, StorageError, storage_error
from ttf.machine.memory.allocator import give_back
from ttf.mining.choose import deadlines, miner_context
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.miner_results import CandidateTable
from ttf.mining.negatives import (
    YieldReport,
    candidates_needed,
    draw,
    remark_on_yield,
    yield_report,
)
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.cache import cache_dir
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.durable import write_json
from ttf.rundir.flight_record import Phase
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.removing import remove_at_once, remove_leftovers
from ttf.rundir.verified_folders import MANIFEST, TABLE_AREA
from ttf.training.auto_candidates import nearest
from ttf.training.checkpoint import Totals
from ttf.training.miner_deaths import record_death
from ttf.training.mining_round import MiningRound, remove_rounds
from ttf.training.refresh import Refreshes
from ttf.training.reused_queries import ReusedQueries
from ttf.training.schedule import Window, window_of
from ttf.training.session import Session

_FEW = "few negatives"


@dataclass(kw_only=True)
class Round:
    """How a mining round went, for metrics.jsonl."""

    seconds: float = 0.0
    encode_s: float = 0.0
    build_s: float = 0.0
    search_s: float = 0.0
    # Exact miners only: the share of answers that the first pass certified.
    certificate_rate: float | None = None
    reused: bool = False
    passing: bool = False  # Candidates are the best below the margins.
    # Queries whose vectors training had computed.
    from_training: int = 0
    deaths: list[str] = field(default_factory=list)


class _Unreadable(StorageError):
    """What was written is not what is read."""


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
        self._round = Round()
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
        table = self._mine_with_retry(rows, step)
        if self._refreshes is not None:
            window = self._refreshes.decide(window, table)
        known = session.data.train.known(rows)
        report = yield_report(table, known, session.config.negatives)
        session.link.flight.mined(step, window.stop)
        self._round.passing = table.passing
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
                "miner": self.miner,
                "queries": report.queries,
                "yield": report.kept_share,
                "with_survivor": report.with_survivor,
                "survivors": report.survivors,
                "negative_score": report.negative_score,
                "positive_score": report.positive_score,
                **vars(self._round),
                **({} if self._refreshes is None else self._refreshes.figures),
            }
        )

    # --- one table ------------------------------------------------------------------------

    def _mine_with_retry(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        """Mines the k best documents of these training rows with the current weights. If the disk
        takes no table, waits for the disk; a run without saved progress fails instead."""
        session = self._session
        flight = session.link.flight
        flight.enter(Phase.MINING, step)
        retry = StorageRetry(
            session.config.checkpoint.retry_s if step else 0.0,
            say=self._say,
            check_stop=session.link.check_stop,
            title=f"THE MINED CANDIDATES OF STEP {step} CANNOT BE WRITTEN",
        )
        while True:
            try:
                table = self._load_or_mine_readable(rows, step)
                break
            except StorageError as error:
                # What such a disk holds is not relied on, and what it needs may be this space.
                remove_rounds(self._folder, session.folder.path)
                retry.wait_or_raise(error)
        flight.enter(Phase.DATA, step)
        return table

    def _load_or_mine_readable(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        try:
            try:
                return self._load_or_mine(rows, step)
            except _Unreadable as error:  # a disk that lied once need not do so again
                self._say(f"{error} ttf repeats the mining.")
                return self._load_or_mine(rows, step)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error

    def _load_or_mine(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        self._round = Round()
        kept = b"" if self._reused is None else self._reused.look(step)
        name = _table_name(self._session, self.miner, rows, kept)
        table = self._load_existing(self._folder / name)
        # Of other weights or settings; or its table is there.
        run = self._session.folder.path
        remove_rounds(self._folder, run, besides="" if table is not None else name)
        return table if table is not None else self._mine_table(rows, name)

    def _load_existing(self, folder: Path) -> CandidateTable | None:
        if not (folder / MANIFEST).is_file():
            return None
        try:
            table = CandidateTable.load(folder)
        except ArtifactDamaged as error:  # of a process that died before it was relied on
            self._say(f"{error} ttf repeats the mining.")
            remove_at_once(folder, self._session.folder.path, TABLE_AREA)
            return None
        self._round.reused = True
        self._note_miner(table.miner)
        return table

    def _mine_table(self, rows: NDArray[np.int64], name: str) -> CandidateTable:
        began = time.perf_counter()
        session = self._session
        work = MiningRound(session, rows, name)
        self._round.from_training = work.encode(self._reused)
        self._round.encode_s = time.perf_counter() - began
        positive_scores = work.positive_scores()
        report = self._search(work, positive_scores)
        self._note_report(report)
        folder = CandidateTable(
            rows=rows,
            ids=np.load(report.ids_path, mmap_mode="r"),
            scores=np.load(report.scores_path, mmap_mode="r"),
            positive_scores=positive_scores,
            key=name,
            version="0" if session.parts.documents.fixed else name,
            miner=report.miner,
            passing=report.below,
            within=self._within() if report.below else None,
        ).save(self._folder)
        work.remove()
        # The blocks of the encoding: 100 MB with trainable documents, in other places each time.
        give_back()
        self._round.seconds = time.perf_counter() - began
        try:
            return CandidateTable.load(folder)
        except ArtifactDamaged as error:
            remove_at_once(folder, session.folder.path, TABLE_AREA)
            raise _Unreadable(
                f"ttf wrote a candidate table and could not read it again: {error}"
            ) from error

    def _search(self, work: MiningRound, positive_scores: NDArray[np.float32]) -> MiningReport:
        session, num_queries = self._session, len(positive_scores)
        documents = session.parts.documents
        settings, budget = self._settings, session.config.memory.budget
        assert isinstance(budget, int)
        bank = work.bank()
        session.reporter.stage(f"mine with {self.miner}", num_queries)
        job = MiningJob(
            bank=bank,
            queries=str(work.queries),
            k=min(settings.num_candidates, documents.rows),
            ceilings=work.ceilings(positive_scores) if settings.candidates != "nearest" else None,
            within=self._within(),
            k_nearest=min(self._k_nearest(), documents.rows),
            miner=self.miner,
            options=settings.options_of(self.miner),
            context=miner_context(session.config, session.policy.threads, budget),
            out=str(work.folder / "found"),
            cache=str(cache_dir()) if documents.fixed else None,
        )
        return self._workers.mine(
            job,
            [MinerChoice(name=n, options=settings.options_of(n)) for n in settings.fallback],
            deadline_s=deadlines(documents.rows, documents.dim, num_queries, settings.deadline_s),
            progress=work.answered,
        )

    def _within(self) -> int | None:
        below = self._settings.candidates == "below"
        return None if below else nearest(self._session.config)

    def _k_nearest(self) -> int:
        # For a miner of `fallback` that does not look below the margins.
        positives = self._session.data.train.positives.shape[1]
        settings = self._session.config.negatives
        needed, _ = candidates_needed(settings, positives, passing=False)
        return max(needed, self._settings.num_candidates)

    # --- the miner ------------------------------------------------------------------------

    @property
    def miner(self) -> str:
        return self._totals.miner or self._settings.name

    def _note_report(self, report: MiningReport) -> None:
        self._note_miner(report.miner)
        self._round.deaths = list(report.deaths)
        self._round.build_s = report.build_s
        self._round.search_s = report.search_s
        self._round.certificate_rate = report.certificate_rate
        if report.index is not None:
            folder = self._session.folder.index
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "index.json", asdict(report.index))

    def _note_miner(self, miner: str) -> None:
        # The miner that answered stays in use, also after a restart.
        if miner != self.miner:
            self._totals.deviations.append(
                f"the miner {self.miner!r} failed and {miner!r} took over"
            )
        self._totals.miner = miner


def _table_name(session: Session, miner: str, rows: NDArray[np.int64], kept: bytes) -> str:
    """A hash of everything the table depends on; `kept`: of query vectors that are used again."""
    digest = hashlib.sha256()
    for name, tensor in session.parts.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    digest.update(rows.tobytes())
    digest.update(kept)
    settings = session.config.miner
    facts: tuple[object, ...] = (
        session.data.fingerprint,
        miner,
        sorted(settings.options_of(miner).items()),
        settings.num_candidates,
        settings.deterministic,
        session.config.train.seed,
    )
    if settings.candidates != "nearest":
        negatives, depth = session.config.negatives, nearest(session.config)
        margins = negatives.relative_margin, negatives.absolute_margin
        facts += (settings.candidates, depth, margins)
    digest.update(repr(facts).encode())
    return digest.hexdigest()[:24]
