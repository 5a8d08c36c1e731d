"""Makes one candidate table: with the current weights, for some training rows.

A table's name is a hash of its inputs (weights, data, miner, rows). A table that exists already, from
before a restart, is used and not mined again; a round that a death interrupted goes on
(`ttf.training.mining_round`).

Several processes share a round: each encodes its part, and the miner `exact`, whose answer to a query
depends on that query alone, answers a part on each node, in one process with all threads of the node.
Other miners answer everything on one node: their indexes may differ from build to build, and their
products round by what is searched together. All processes get the same table, bit for bit.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.errors import ArtifactDamaged, RanksDisagree, StorageError, storage_error
from ttf.machine.memory.allocator import give_back
from ttf.mining.choose import EXACT, deadlines, miner_context
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.miner_results import CandidateTable, taken_over
from ttf.mining.negatives import candidates_needed
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.cache import cache_dir
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.durable import write_json
from ttf.rundir.flight_record import Phase
from ttf.rundir.removing import remove_at_once
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import MANIFEST, TABLE_AREA
from ttf.training.auto_candidates import nearest
from ttf.training.checkpoint import Totals
from ttf.training.mining_round import MiningRound, cut_for_miners, remove_rounds
from ttf.training.reused_queries import ReusedQueries
from ttf.training.session import Session
from ttf.training.shares import OthersFailed

_OTHER_QUERIES = (
    "the processes of the run had kept different query vectors, and these queries were encoded for "
    "mining"
)


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
        self._shares = session.shares
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
        name = _table_name(self._session, self.miner, rows, kept)
        folder, run = self._folder / name, self._session.folder.path
        table = self._shares.stage("table", lambda: self._load_existing(folder))
        told = self._shares.tell("table", self._about(name, table is not None))
        _refuse_other_names(told)
        if all(other["there"] for other in told):
            assert table is not None
            remove_rounds(self._folder, run)  # Of other weights or settings; or this one's.
            return table
        if table is not None:
            # Some lack it. Not every miner would find it again bit for bit, so all make a new one.
            remove_at_once(folder, run, TABLE_AREA)
            self.round.reused = False
        remove_rounds(self._folder, run, besides=name)
        return self._mine_table(rows, name, reused, told)

    def _kept_queries(self, step: int) -> tuple[bytes, ReusedQueries | None]:
        """A hash of the vectors that training kept and this round uses."""
        if self._reused is None:
            return b"", None
        kept = self._reused.look(step)
        told = self._shares.tell("kept queries", {"hash": hashlib.sha256(kept).hexdigest()})
        if all(other == told[0] for other in told):
            return kept, self._reused
        if _OTHER_QUERIES not in self._totals.deviations:
            self._totals.deviations.append(_OTHER_QUERIES)
            self._say(f"{_OTHER_QUERIES[0].upper()}{_OTHER_QUERIES[1:]}.")
        return b"", None

    def _about(self, name: str, there: bool) -> Mapping[str, Any]:
        place = self._session.world.place
        return {
            "name": name,
            "there": there,
            "mines": place.local_rank == 0,
            "folder": _identity(self._session.folder.path),
        }

    def _load_existing(self, folder: Path) -> CandidateTable | None:
        if not (folder / MANIFEST).is_file():
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

    def _mine_table(
        self,
        rows: NDArray[np.int64],
        name: str,
        reused: ReusedQueries | None,
        told: Sequence[Mapping[str, Any]],
    ) -> CandidateTable:
        began = time.perf_counter()
        session, miner = self._session, self.miner
        mines = [bool(other["mines"]) for other in told]
        while True:
            answers = cut_for_miners(self._shares, len(rows), mines, everywhere=miner == EXACT)
            work = MiningRound(session, rows, name, answers)
            self.round.from_training = work.encode(reused)
            self.round.encode_s = time.perf_counter() - began
            positive_scores = work.positive_scores()
            report = self._search(work, positive_scores, miner)
            found = self._shares.tell("mined", _facts(report))
            used = {str(other["miner"]) for other in found if other}
            self._note(report, [other for other in found if other])
            if len(used) == 1:
                break
            # On some nodes another one took over. Its answers have another form: it answers all.
            miner = self.miner
        (facts, *_) = [other for other in found if other]
        home = self._home([str(other["folder"]) for other in told])
        written = work.answers(report, int(facts["k"]), wanted=home is None)

        def save() -> None:
            if written is not None:
                CandidateTable(
                    rows=rows,
                    ids=written[0],
                    scores=written[1],
                    positive_scores=positive_scores,
                    key=name,
                    version="0" if session.parts.documents.fixed else name,
                    miner=str(facts["miner"]),
                    passing=bool(facts["below"]),
                    within=self._within() if facts["below"] else None,
                ).save(self._folder)

        self._shares.stage("the table", save)
        work.remove()
        # The blocks of the encoding: 100 MB with trainable documents, in other places each time.
        give_back()
        self.round.seconds = time.perf_counter() - began
        return self._shares.stage("the table, read", lambda: self._read_back(name, home))

    def _home(self, folders: Sequence[str]) -> RunFolder | None:
        """The folder of another process on this node that writes the table; None: this one does."""
        path = self._session.folder.path
        if self._session.world.place.local_rank == 0 or path.parent.name != "ranks":
            return None
        home = path.parents[1]
        return RunFolder(home) if home.is_dir() and _identity(home) in folders else None

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

    def _search(
        self, work: MiningRound, positive_scores: NDArray[np.float32], miner: str
    ) -> MiningReport | None:
        """Of the queries that this process's miner answers, if it answers any."""
        bank = work.bank()
        if not work.own:
            return self._shares.stage("mining", lambda: None)
        session, num_queries = self._session, len(work.own)
        documents = session.parts.documents
        settings, budget = self._settings, session.config.memory.budget
        assert isinstance(budget, int)
        threads = session.policy.threads
        if miner == EXACT:  # Its scores do not depend on them; the others of the node wait.
            threads *= session.world.place.local_size
        session.reporter.stage(f"mine with {miner}", num_queries)
        job = MiningJob(
            bank=bank,
            queries=str(work.queries),
            k=min(settings.num_candidates, documents.rows),
            ceilings=work.ceilings(positive_scores) if settings.candidates != "nearest" else None,
            within=self._within(),
            k_nearest=min(self._k_nearest(), documents.rows),
            miner=miner,
            options=settings.options_of(miner),
            context=miner_context(session.config, threads, budget),
            out=str(work.folder / "found"),
            cache=str(cache_dir()) if documents.fixed else None,
        )
        fallback = [MinerChoice(name=n, options=settings.options_of(n)) for n in settings.fallback]
        deadline_s = deadlines(documents.rows, documents.dim, num_queries, settings.deadline_s)

        def mine() -> MiningReport:
            return self._workers.mine(
                job, fallback, deadline_s=deadline_s, progress=work.answered
            )

        return self._shares.stage("mining", mine)

    def _within(self) -> int | None:
        below = self._settings.candidates == "below"
        return None if below else nearest(self._session.config)

    def _k_nearest(self) -> int:
        # For a miner of `fallback` that does not look below the margins.
        positives = self._session.data.train.positives.shape[1]
        settings = self._session.config.negatives
        needed, _ = candidates_needed(settings, positives, passing=False)
        return max(needed, self._settings.num_candidates)

    # --- what the miners say --------------------------------------------------------------

    def _note(self, report: MiningReport | None, found: Sequence[Mapping[str, Any]]) -> None:
        order = [self._settings.name, *self._settings.fallback]
        used = {str(facts["miner"]) for facts in found}
        self._note_miner(max(used, key=lambda name: order.index(name) if name in order else 0))
        self.round.deaths += chain.from_iterable(facts["deaths"] for facts in found)
        self.round.build_s = max(float(facts["build_s"]) for facts in found)
        self.round.search_s = max(float(facts["search_s"]) for facts in found)
        self.round.certificate_rate = _rate(found)
        if report is not None and report.index is not None:
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


def _facts(report: MiningReport | None) -> Mapping[str, Any]:
    if report is None:
        return {}
    return {
        "miner": report.miner,
        "k": report.k,
        "below": report.below,
        "deaths": list(report.deaths),
        "build_s": report.build_s,
        "search_s": report.search_s,
        "rate": report.certificate_rate,
        "searched": report.queries - report.continued_from,
    }


def _rate(found: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all queries, from those of the parts."""
    if len(found) == 1:
        rate: float | None = found[0]["rate"]
        return rate
    rates = [(facts["rate"], facts["searched"]) for facts in found if facts["rate"] is not None]
    searched = sum(count for _, count in rates)
    return sum(rate * count for rate, count in rates) / searched if searched else None


def _identity(folder: Path) -> str:
    found = folder.stat()
    return f"{socket.gethostname()}:{found.st_dev}:{found.st_ino}"


def _refuse_other_names(told: Sequence[Mapping[str, Any]]) -> None:
    names = sorted({str(other["name"]) for other in told})
    if len(names) > 1:
        raise RanksDisagree(
            f"The processes of this run would mine different candidate tables ({', '.join(names)}): "
            "their weights, data or settings differ.",
            hint="Continue with: ttf resume. If it happens again, test the memory of the hosts.",
        )


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
