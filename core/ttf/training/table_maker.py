"""Makes candidate tables during training: encodes queries, hands them to the miner, keeps the rest.

A table's name is a hash of what it follows from (weights, data, miner, rows): a table that is
already there, from before a restart, is used and not mined again. A disk that takes none is waited
for as long as one that takes no checkpoint: training cannot go on without it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DevicePolicy
from ttf.data.dataset import Dataset
from ttf.errors import ArtifactDamaged, StorageError, storage_error
from ttf.mining.candidates import CandidateTable
from ttf.mining.choose import deadlines, miner_context
from ttf.mining.index_cache import write_note
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.negatives import YieldReport
from ttf.mining.workers import MinerWorkers, OnDeath
from ttf.process.signals import StopRequest
from ttf.rundir.cache import cache_dir
from ttf.rundir.disk_retry import once_the_disk_takes_it
from ttf.rundir.durable import remove_folder
from ttf.rundir.folder import RunFolder
from ttf.rundir.table_files import AREA, prune_tables
from ttf.rundir.verified_folder import MANIFEST
from ttf.text.progress import Reporter
from ttf.training.auto import Decided
from ttf.training.documents import Documents
from ttf.training.evaluation import encode_split, positive_scores
from ttf.training.towers import TwoTower

_SCORE_ROWS = 1024


@dataclass(kw_only=True)
class Round:
    """How the last mining round went, for metrics.jsonl."""

    seconds: float = 0.0
    encode_s: float = 0.0
    build_s: float = 0.0
    search_s: float = 0.0
    certificate_rate: float | None = None
    """Of an exact miner: the share of answers that its first pass vouched for."""
    reused: bool = False
    deaths: list[str] = field(default_factory=list)


class _Unreadable(StorageError):
    """What was written is not what is read."""


class TableMaker:
    """Owns the miner's configuration, its worker process and the folder of tables.

    Make tables from the main thread: the worker lives no longer than the thread that started it.
    """

    def __init__(
        self,
        decided: Decided,
        data: Dataset,
        model: TwoTower,
        documents: Documents,
        policy: DevicePolicy,
        folder: RunFolder,
        reporter: Reporter,
        stop: StopRequest,
        *,
        beat: Callable[[], None] = lambda: None,
        on_death: OnDeath | None = None,
    ) -> None:
        """`beat` is called several times a second while a worker is waited for, `on_death` for
        every failed attempt to mine. `close` it: a worker is kept warm between rounds."""
        self._decided, self._data, self._model = decided, data, model
        self._documents, self._policy, self._folder = documents, policy, folder
        self._reporter, self._stop = reporter, stop
        self._settings, self._beat = decided.config.miner, beat
        self.miner = self._settings.name
        self._round = Round()
        self._deviations: list[str] = []
        self._workers = MinerWorkers(
            isolation=self._settings.isolation,
            say=reporter.note,
            logs=folder.path / "incidents",
            beat=beat,
            on_death=on_death,
        )

    def make(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        """The k best documents of these training rows under the present weights. A run that has
        nothing to lose yet does not wait for the disk."""
        return once_the_disk_takes_it(
            lambda: self._made(rows),
            self._decided.config.checkpoint.retry_s if step else 0.0,
            say=self._reporter.note,
            beat=self._unless_stopped,
            loudly=f"THE CANDIDATES OF STEP {step} CANNOT BE WRITTEN",
        )

    def _made(self, rows: NDArray[np.int64]) -> CandidateTable:
        try:
            try:
                return self._kept_or_mined(rows)
            except _Unreadable as error:  # a disk that lied once need not do so again
                self._reporter.note(f"{error} It is mined again.")
                return self._kept_or_mined(rows)
        except OSError as error:
            raise storage_error(error, str(self._folder.candidates)) from error

    def _kept_or_mined(self, rows: NDArray[np.int64]) -> CandidateTable:
        began = time.perf_counter()
        self._round = Round()
        key = self._key(rows)
        folder = self._folder.candidates / key
        if (folder / MANIFEST).is_file():
            try:
                table = CandidateTable.load(folder)
            except ArtifactDamaged as error:  # of a process that died before it was relied on
                self._reporter.note(f"{error} It is mined again.")
                remove_folder(folder, AREA)
            else:
                self._round.reused = True
                self._took_over(table.miner)
                return table
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=self._folder.candidates) as scratch:
            table = self._mine(rows, key, Path(scratch))
            kept = table.save(self._folder.candidates)
        self._round.seconds = time.perf_counter() - began
        try:
            return CandidateTable.load(kept)
        except ArtifactDamaged as error:
            remove_folder(kept, AREA)
            raise _Unreadable(f"A table does not read back as it was written: {error}") from error

    def _unless_stopped(self) -> None:
        self._beat()
        self._stop.raise_if_asked()

    def _mine(self, rows: NDArray[np.int64], key: str, scratch: Path) -> CandidateTable:
        queries = self._encode(rows, scratch / "queries.npy")
        report = self._search(scratch, len(rows))
        self._remember(report)
        return CandidateTable(
            rows=rows,
            ids=np.load(report.ids_path, mmap_mode="r"),
            scores=np.load(report.scores_path, mmap_mode="r"),
            positive_scores=self._lowest_positive(queries, rows),
            key=key,
            version="0" if self._documents.fixed else key,
            miner=report.miner,
        )

    def _encode(self, rows: NDArray[np.int64], path: Path) -> NDArray[np.float32]:
        began = time.perf_counter()
        self._reporter.stage("encode queries", len(rows))
        out = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.float32, shape=(len(rows), self._documents.dim)
        )
        _allocate(out)
        encode_split(
            self._model,
            self._data.train,
            rows,
            self._policy,
            self._decided.precision,
            self._decided.plan.micro_batch,
            out=out,
            progress=self._advance,
        )
        out.flush()
        self._round.encode_s = time.perf_counter() - began
        return out

    def _search(self, scratch: Path, num_queries: int) -> MiningReport:
        config = self._decided.config
        self._reporter.stage(f"mine with {self.miner}", num_queries)
        job = MiningJob(
            bank=self._documents.reference(scratch),
            queries=str(scratch / "queries.npy"),
            k=min(self._settings.k, self._documents.rows),
            miner=self.miner,
            options=self._settings.options_of(self.miner),
            context=miner_context(config, self._policy.threads),
            out=str(scratch / "found"),
            cache=str(cache_dir()) if self._documents.fixed else None,
        )
        return self._workers.mine(
            job,
            [
                MinerChoice(name=name, options=self._settings.options_of(name))
                for name in self._settings.fallback
            ],
            deadline_s=deadlines(
                self._documents.rows,
                self._documents.dim,
                num_queries,
                self._settings.deadline_s,
            ),
            progress=self._advance,
        )

    def release(self) -> None:
        """Gives back what mining holds between rounds: the idle worker, or the index in memory."""
        self._workers.release()

    def close(self) -> None:
        """Ends the worker."""
        self._workers.close()

    def _advance(self, done: int, total: int) -> None:
        self._reporter.advance(done, total)
        self._stop.raise_if_asked()

    def _took_over(self, miner: str) -> None:
        """The miner that really answered stays in force, also after a restart."""
        if miner != self.miner:
            self._deviations.append(f"the miner {self.miner!r} failed and {miner!r} took over")
        self.miner = miner

    def _remember(self, report: MiningReport) -> None:
        self._took_over(report.miner)
        self._round.deaths = list(report.deaths)
        self._round.build_s, self._round.search_s = report.build_s, report.search_s
        self._round.certificate_rate = report.certificate_rate
        if report.index is not None:
            write_note(self._folder.index, report.index)

    def _lowest_positive(
        self, queries: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        out = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), _SCORE_ROWS):
            here = slice(start, start + _SCORE_ROWS)
            known = self._data.train.known(rows[here])
            q_BD = torch.from_numpy(np.array(queries[here]))
            scores = positive_scores(q_BD, known, self._documents)
            out[here] = torch.where(torch.from_numpy(known >= 0), scores, torch.inf).amin(1)
        return out

    def _key(self, rows: NDArray[np.int64]) -> str:
        digest = hashlib.sha256()
        for name, tensor in self._model.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        settings = self._settings
        digest.update(rows.tobytes())
        digest.update(
            repr(
                (
                    self._data.fingerprint,
                    self.miner,
                    sorted(settings.options_of(self.miner).items()),
                    settings.k,
                    settings.deterministic,
                    self._decided.config.train.seed,
                )
            ).encode()
        )
        return digest.hexdigest()[:24]

    def last_report(self, report: YieldReport) -> dict[str, Any]:
        """The mining line of metrics.jsonl."""
        return {
            "miner": self.miner,
            "queries": report.queries,
            "yield": report.kept_share,
            "with_survivor": report.with_survivor,
            "survivors": report.survivors,
            "negative_score": report.negative_score,
            "positive_score": report.positive_score,
            **vars(self._round),
        }

    def take_deviations(self) -> list[str]:
        """What made the numbers differ since the last call."""
        taken, self._deviations = self._deviations, []
        return taken

    def prune(self, in_use: set[str]) -> None:
        """Removes tables that no checkpoint names; what the disk will not let go stays until the
        next time."""
        try:
            prune_tables(self._folder.candidates, in_use)
        except StorageError as error:
            self._reporter.note(str(error))


def _allocate(out: np.memmap[Any, Any]) -> None:
    """The file is sparse so far, and writing through a map on a full disk is SIGBUS."""
    assert out.filename is not None
    with Path(out.filename).open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, out.offset + out.nbytes)
            return
        file.seek(out.offset)
        file.writelines(bytes(out.strides[0]) for _ in range(len(out)))
