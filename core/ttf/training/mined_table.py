"""Makes one candidate table: with the current weights, for some training rows.

A table's name is a hash of its inputs (weights, data, miner, rows). A table that exists already, from
before a restart, is used and not mined again; a round that a death interrupted goes on
(`ttf.training.mining_round`).

Several processes share a round: each encodes its part, and the miner `exact`, whose answer to a query
depends on that query alone, searches on each node, in one process with all threads of the node, for a
part of the queries or in a part of the bank. Other miners answer everything on one node: their
indexes may differ from build to build, and their products round by what is searched together. All
processes get the same table, bit for bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.errors import ArtifactDamaged, DataChanged, StorageError, storage_error
from ttf.machine.memory.allocator import give_back
from ttf.machine.memory.run_limit import run_limit
from ttf.machine.processor import usable_threads
from ttf.mining.choose import EXACT, deadlines, miner_context
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.miner_results import CandidateTable, taken_over
from ttf.mining.negatives import candidates_needed, ceilings
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.cache import cache_dir
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.durable import write_json
from ttf.rundir.flight_record import Phase
from ttf.rundir.removing import remove_at_once
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import MANIFEST, TABLE_AREA, table_digest
from ttf.training.auto_candidates import nearest
from ttf.training.checkpoint import Totals
from ttf.training.mining_round import MiningRound, remove_rounds
from ttf.training.reused_queries import ReusedQueries
from ttf.training.round_cut import Cut, cut_round
from ttf.training.round_facts import (
    Round,
    facts_of,
    identity_of,
    refuse_other_tables,
    table_name,
)
from ttf.training.session import Session
from ttf.training.team import OthersFailed

Told = Sequence[Mapping[str, Any]]
Arrays = tuple[NDArray[np.int64], NDArray[np.float32]]
_OTHER_QUERIES = (
    "the processes of the run had kept different query vectors, and these queries were encoded for "
    "mining"
)


class _Unreadable(StorageError):
    """What was written is not what is read."""


class TableMaker:
    """Use it from the main thread. `round` tells how the last table was made."""

    def __init__(
        self,
        session: Session,
        totals: Totals,
        workers: MinerWorkers,
        reused: ReusedQueries | None,
    ) -> None:
        self._session = session
        self._totals = totals
        self._workers = workers
        self._reused = reused
        self._team = session.team
        self._settings = session.config.miner
        self._folder = session.folder.candidates
        self._say = session.reporter.note
        self.round = Round()

    @property
    def miner(self) -> str:
        return self._totals.miner or self._settings.name

    def __call__(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
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
                table = self._readable_table(rows, step)
                break
            except OthersFailed as error:
                self._say(str(error))
            except StorageError as error:
                # What such a disk holds is not relied on, and what it needs may be this space.
                remove_rounds(self._folder, session.folder.path)
                retry.wait_or_raise(error)
        flight.enter(Phase.DATA, step)
        return table

    def _readable_table(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        try:
            try:
                return self._table(rows, step)
            except _Unreadable as error:  # a disk that lied once need not do so again
                self._say(f"{error} ttf repeats the mining.")
                return self._table(rows, step)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error

    def _table(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        self.round = Round()
        kept, reused = self._kept_queries(step)
        name = table_name(self._session, self.miner, rows, kept)
        folder, run = self._folder / name, self._session.folder.path
        table = self._team.stage("table", lambda: self._load_existing(folder))
        told = self._team.tell("table", self._about(name, table))
        refuse_other_tables(told)
        if table is not None and all(other["table"] == told[0]["table"] for other in told):
            remove_rounds(self._folder, run)  # Of other weights or settings; or this one's.
            return table
        # Where some have one: not every miner would find it again bit for bit, so all make it.
        self._team.stage("no table", lambda: self._forget(folder, table))
        remove_rounds(self._folder, run, besides=name)
        return self._mine_table(rows, name, reused, told)

    def _kept_queries(self, step: int) -> tuple[bytes, ReusedQueries | None]:
        """A hash of the vectors that training kept and this round uses."""
        if self._reused is None:
            return b"", None
        kept = self._reused.look(step)
        told = self._team.tell("kept queries", {"hash": hashlib.sha256(kept).hexdigest()})
        if all(other == told[0] for other in told):
            return kept, self._reused
        if _OTHER_QUERIES not in self._totals.deviations:
            self._totals.deviations.append(_OTHER_QUERIES)
            self._say(f"{_OTHER_QUERIES[0].upper()}{_OTHER_QUERIES[1:]}.")
        return b"", None

    def _about(self, name: str, table: CandidateTable | None) -> Mapping[str, Any]:
        session = self._session
        documents, limit = session.parts.documents, run_limit(session.config.memory.limit)
        return {
            "name": name,
            "table": "" if table is None else table_digest(self._folder / name),
            "mines": session.world.place.local_rank == 0,
            "folder": identity_of(session.folder.path),
            "fits": 2 * documents.rows * documents.dim <= limit.bytes,
        }

    def _load_existing(self, folder: Path) -> CandidateTable | None:
        home = self._home_by_name()
        if not (folder / MANIFEST).is_file():
            if home is None or not (home.candidates / folder.name / MANIFEST).is_file():
                return None
            try:
                taken_over(home.candidates / folder.name, home.path, folder)
            except StorageError:  # it may be damaged, and on its way out: then all make a new one
                return None
        try:
            table = CandidateTable.load(folder)
        except ArtifactDamaged as error:  # of a process that died before it was relied on
            self._say(f"{error} ttf repeats the mining.")
            remove_at_once(folder, self._session.folder.path, TABLE_AREA)
            return None
        self.round.reused = True
        self._note_miner(table.miner)
        return table

    def _forget(self, folder: Path, table: CandidateTable | None) -> None:
        self.round.reused = False
        if table is not None:
            remove_at_once(folder, self._session.folder.path, TABLE_AREA)

    # --- a round --------------------------------------------------------------------------

    def _mine_table(
        self, rows: NDArray[np.int64], name: str, reused: ReusedQueries | None, told: Told
    ) -> CandidateTable:
        began = time.perf_counter()
        session, team = self._session, self._team
        while True:
            miner, cut = self.miner, self._cut(len(rows), told)
            work = team.stage("round", partial(MiningRound, session, rows, name, cut))
            with self._unchanged_data(work):
                self.round.from_training = work.encode(reused)
                self.round.encode_s = time.perf_counter() - began
                positive_scores = work.positive_scores()
                report = self._search(work, positive_scores, miner, by_rows=cut.by_rows)
            found = [other for other in team.tell("mined", facts_of(report)) if other]
            self._note(found)
            used = {str(facts["miner"]) for facts in found}
            if used == {miner} or (len(used) == 1 and not cut.by_rows):
                break
            # On some nodes another miner took over. Its answers have another form: it answers all.
        home = self._home([str(other["folder"]) for other in told])
        written = self._written(work, report, found, positive_scores, cut, wanted=home is None)

        def save() -> None:
            self._write_index(report)
            if written is not None:
                below = self._is_below(found, cut)
                CandidateTable(
                    rows=rows,
                    ids=written[0],
                    scores=written[1],
                    positive_scores=positive_scores,
                    key=name,
                    version="0" if session.parts.documents.fixed else name,
                    miner=self.miner,
                    passing=below,
                    within=self._within() if below else None,
                ).save(self._folder)

        team.stage("the table", save)
        work.remove()
        # The blocks of the encoding: 100 MB with trainable documents, in other places each time.
        give_back()
        self.round.seconds = time.perf_counter() - began
        return team.stage("the table, read", lambda: self._read_back(name, home))

    @contextlib.contextmanager
    def _unchanged_data(self, work: MiningRound) -> Iterator[None]:
        """A round whose data changed is not gone on with, and makes no table: the next process would
        take both for those of the original data."""
        try:
            yield
            self._session.data.check_unchanged()
        except DataChanged:
            work.remove()
            raise

    def _cut(self, queries: int, told: Told) -> Cut:
        mines = [bool(other["mines"]) for other in told]
        split = self._settings.split
        exact = self.miner == EXACT
        if split == "auto":
            split = "queries" if all(other["fits"] for other in told) else "rows"
        return cut_round(
            self._team,
            mines if exact else [True] + [False] * (len(mines) - 1),
            queries,
            self._session.parts.documents.rows,
            by_rows=exact and split == "rows" and len(mines) > 1,
        )

    def _search(
        self,
        work: MiningRound,
        positive_scores: NDArray[np.float32],
        miner: str,
        *,
        by_rows: bool,
    ) -> MiningReport | None:
        """Of the queries that this process's miner answers, if it answers any."""
        bank = work.bank()
        session, settings = self._session, self._settings
        documents, budget = session.parts.documents, session.config.memory.budget
        assert isinstance(budget, int)
        threads = session.policy.threads
        if miner == EXACT:  # Its scores do not depend on them; the others of the node wait.
            of_node = threads * session.world.place.local_size
            threads = max(threads, min(of_node, usable_threads()))
        below = settings.candidates != "nearest" and not (by_rows and self._nearest_first)
        fallback = [MinerChoice(name=n, options=settings.options_of(n)) for n in settings.fallback]

        def mine() -> MiningReport | None:
            if not work.own:
                return None
            session.reporter.stage(f"mine with {miner}", len(work.own))
            job = MiningJob(
                bank=bank,
                queries=str(work.queries),
                k=self._asked() if by_rows else self._k(),
                ceilings=work.ceilings(positive_scores) if below else None,
                within=self._within(),
                k_nearest=min(self._k_nearest(), documents.rows),
                miner=miner,
                options=settings.options_of(miner),
                context=miner_context(session.config, threads, budget),
                out=str(work.folder / "found"),
                cache=str(cache_dir()) if documents.fixed else None,
            )
            within = deadlines(documents.rows, documents.dim, len(work.own), settings.deadline_s)
            return self._workers.mine(job, fallback, deadline_s=within, progress=work.answered)

        return self._team.stage("mining", mine)

    @property
    def _nearest_first(self) -> bool:
        # Which are the nearest of all is known when the parts of the bank are merged.
        return self._settings.candidates == "passing"

    def _k(self) -> int:
        return min(self._settings.num_candidates, self._session.parts.documents.rows)

    def _asked(self) -> int:
        """How many rows the parts of the bank are asked for."""
        rows = self._session.parts.documents.rows
        return min(nearest(self._session.config), rows) if self._nearest_first else self._k()

    def _within(self) -> int | None:
        below = self._settings.candidates == "below"
        return None if below else nearest(self._session.config)

    def _k_nearest(self) -> int:
        # For a miner of `fallback` that does not look below the margins.
        positives = self._session.data.train.positives.shape[1]
        settings = self._session.config.negatives
        needed, _ = candidates_needed(settings, positives, passing=False)
        return max(needed, self._settings.num_candidates)

    # --- what was found -------------------------------------------------------------------

    def _is_below(self, found: Told, cut: Cut) -> bool:
        return self._settings.candidates != "nearest" if cut.by_rows else bool(found[0]["below"])

    def _written(
        self,
        work: MiningRound,
        report: MiningReport | None,
        found: Told,
        positive_scores: NDArray[np.float32],
        cut: Cut,
        *,
        wanted: bool,
    ) -> Arrays | None:
        if not cut.by_rows:
            return work.answers(report, int(found[0]["k"]), wanted=wanted)
        limits = None
        if self._nearest_first:
            limits = ceilings(positive_scores, self._session.config.negatives)
        return work.merged(report, self._asked(), self._k(), limits, wanted=wanted)

    def _home(self, folders: Sequence[str]) -> RunFolder | None:
        """The folder of another process on this node that writes the table; None: this one does."""
        home = self._home_by_name()
        return home if home is not None and identity_of(home.path) in folders else None

    def _home_by_name(self) -> RunFolder | None:
        path = self._session.folder.path
        if self._session.world.place.local_rank == 0 or path.parent.name != "ranks":
            return None
        home = path.parents[1]
        return RunFolder(home) if home.is_dir() else None

    def _read_back(self, name: str, home: RunFolder | None) -> CandidateTable:
        folder = self._folder / name
        if home is not None:
            taken_over(home.candidates / name, home.path, folder)
        try:
            return CandidateTable.load(folder)
        except ArtifactDamaged as error:
            remove_at_once(folder, self._session.folder.path, TABLE_AREA)
            raise _Unreadable(
                f"ttf wrote a candidate table and could not read it again: {error}"
            ) from error

    def _note(self, found: Told) -> None:
        order = [self._settings.name, *self._settings.fallback]
        used = {str(facts["miner"]) for facts in found}
        self._note_miner(max(used, key=lambda name: order.index(name) if name in order else 0))
        self.round.take(found)

    def _note_miner(self, miner: str) -> None:
        # The miner that answered stays in use, also after a restart.
        if miner != self.miner:
            self._totals.deviations.append(
                f"the miner {self.miner!r} failed and {miner!r} took over"
            )
        self._totals.miner = miner

    def _write_index(self, report: MiningReport | None) -> None:
        if report is not None and report.index is not None:
            folder = self._session.folder.index
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "index.json", asdict(report.index))
