"""`ttf mine`: a candidate table for the queries of a file or of a finished run.

Unfinished work is in `<out>.partial/`, and the same command continues there. `out` appears when it
is complete. Whether `out` can be written is checked before mining.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.config.schema import RunConfig
from ttf.data.order import Permutation, key
from ttf.errors import ArtifactDamaged, BadData, ConfigError, FolderInUse, storage_error
from ttf.host import plugins
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.mining.choose import (
    AUTO,
    Workload,
    above_budget,
    checked_options,
    choose_miner,
    deadlines,
    miner_context,
    miner_threads,
)
from ttf.mining.growing_arrays import GrowingArrays
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import names_in, read_json, refuse_foreign, sha256_file, write_inside
from ttf.rundir.durable import write_json
from ttf.rundir.removing import remove_if_possible
from ttf.tools.mine.inputs import Inputs
from ttf.tools.mine.table_file import check_table, write_table

if TYPE_CHECKING:
    from ttf.text.progress import Reporter

_SAMPLE: Final = 256
_FOUND: Final = "found"
_QUERIES: Final = "queries.npy"
_NOTE: Final = "queries.json"
_SAMPLED: Final = "sample.npy"
_EXACT: Final = "exact"
_OWN: Final = frozenset({_FOUND, _QUERIES, _NOTE, _SAMPLED, _EXACT})


@dataclass(frozen=True, kw_only=True)
class Mined:
    """What `ttf mine --json` prints."""

    out: str
    queries: int
    bank: int
    k: int
    miner: str
    build_s: float
    search_s: float
    wall_s: float
    recall_vs_exact: float  # Share of the exact answers, on a sample of queries; 1.0 if certified.
    recall_interval: tuple[float, float]  # 95%, from the spread between the sampled queries
    certified: bool  # the miner is exact: nothing was sampled
    # Of an exact miner: the share of queries whose first scan proved its answer; the others were
    # scanned again. None: not reported, or an earlier attempt did all the work.
    certificate_rate: float | None
    rescanned: int
    reused_index: bool
    continued_from: int
    deaths: tuple[str, ...]
    notes: tuple[str, ...] = ()  # About the model, the bank and the pairs.

    def __repr__(self) -> str:
        how = "exact" if self.certified else f"recall {self.recall_vs_exact:.3f} of the exact"
        return f"Mined({self.out!r}: {self.queries:,} queries x {self.k:,}, {self.miner}, {how})"

    def _repr_html_(self) -> str:
        from ttf.text.html import facts_table

        return facts_table(self.out, [(name, str(value)) for name, value in vars(self).items()])


@dataclass(frozen=True, kw_only=True)
class Recall:
    """The mean share of the exact answers that were found, and its 95% interval."""

    share: float
    interval: tuple[float, float]

    @classmethod
    def of(cls, shares: NDArray[np.float64], *, of: int) -> Self:
        """`shares`: one per sampled query, drawn without replacement from `of` queries.

        >>> Recall.of(np.array([1.0, 0.5, 1.0, 0.5]), of=4).interval
        (0.75, 0.75)
        """
        count, mean = len(shares), float(shares.mean())
        spread = float(shares.std(ddof=1)) if count > 1 else 0.0
        left = (of - count) / max(of - 1, 1)  # a sample of all queries has no error
        margin = 1.96 * spread * math.sqrt(left / count)
        return cls(share=mean, interval=(max(0.0, mean - margin), min(1.0, mean + margin)))


def mine(
    inputs: Inputs,
    out: Path,
    config: RunConfig,
    threads: int,
    reporter: Reporter,
    *,
    overwrite: bool = False,
) -> Mined:
    """Mines and writes `out`; continues an interrupted attempt at the same `out`."""
    started = time.monotonic()
    check_table(out, [], overwrite=overwrite)
    with _partial(out) as folder:
        attempt = _Attempt(inputs, folder, config, threads, reporter)
        job = attempt.job(attempt.queries_file())
        with MinerWorkers(isolation=config.miner.isolation, say=reporter.note) as workers:
            report = attempt.run(workers, job)
            recall = attempt.recall(workers, report, job)
        write_table(out, report)
        remove_if_possible(folder, folder.parent)
    return Mined(
        out=str(out),
        queries=report.queries,
        bank=report.bank_rows,
        k=report.k,
        miner=report.miner,
        build_s=report.build_s,
        search_s=report.search_s,
        wall_s=time.monotonic() - started,
        recall_vs_exact=recall.share if recall else 1.0,
        recall_interval=recall.interval if recall else (1.0, 1.0),
        certified=recall is None,
        certificate_rate=report.certificate_rate,
        rescanned=report.rescanned,
        reused_index=report.reused_index,
        continued_from=report.continued_from,
        deaths=report.deaths,
        notes=inputs.notes,
    )


def partial_folder(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


@contextlib.contextmanager
def _partial(out: Path) -> Iterator[Path]:
    """The partial folder, locked."""
    import filelock

    folder = partial_folder(out)
    lock = filelock.FileLock(out.with_name(f".{out.name}.lock"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_foreign(out.parent, [Path(lock.lock_file).name], [folder.name])
        lock.acquire(timeout=0)
        _refuse_others(folder)
    except filelock.Timeout:
        raise FolderInUse(
            f"Another process is writing a candidate table to {out}.",
            hint="Wait until it ends, or choose another --out.",
        ) from None
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    try:
        yield folder
    except (ConfigError, BadData):
        # The same command would fail again; answers, though, are never thrown away.
        if not GrowingArrays.has_blocks(folder / _FOUND):
            remove_if_possible(folder, folder.parent)
        raise
    finally:
        lock.release()
        remove_if_possible(Path(lock.lock_file), out.parent)


def _refuse_others(folder: Path) -> None:
    # It is removed in the end: it must hold nothing but our own files.
    others = [name for name in names_in(folder, folder) if name not in _OWN]
    if others or folder.stat().st_uid != os.geteuid():
        what = f"it holds {others[0]}" if others else "it belongs to another user"
        raise ConfigError(
            f"{folder} is not an unfinished attempt of ttf mine: {what}.",
            hint="Choose another --out, or move that folder away.",
        )


@dataclass(frozen=True)
class _Attempt:
    inputs: Inputs
    folder: Path
    config: RunConfig
    threads: int
    reporter: Reporter

    def queries_file(self) -> Path:
        """The query vectors as one file; reuses an equal one of an interrupted attempt."""
        inputs = self.inputs
        path, note = self.folder / _QUERIES, self.folder / _NOTE
        with contextlib.suppress(OSError, ArtifactDamaged):
            kept = {"identity": inputs.identity, "sha256": sha256_file(path, self.folder)}
            if read_json(note, self.folder) == kept:
                return path
        self.reporter.stage("encode", inputs.num_queries)
        shape = (inputs.num_queries, inputs.dim)
        done = 0
        try:
            with write_inside(path, self.folder, anew=True) as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for block in inputs.blocks():
                    file.write(np.ascontiguousarray(block, dtype="<f4").data)
                    done += len(block)
                    self.reporter.advance(done, inputs.num_queries)
        except OSError as error:
            raise storage_error(error, str(path)) from error
        written = {"identity": inputs.identity, "sha256": sha256_file(path, self.folder)}
        write_json(note, written)
        return path

    def job(self, queries: Path) -> MiningJob:
        config, miner = self.config, self.config.miner
        rows, dim, num_queries = self.inputs.rows, self.inputs.dim, self.inputs.num_queries
        name, reason = choose_miner(
            miner,
            rows=rows,
            dim=dim,
            queries=num_queries,
            refreshes=1,
            threads=miner_threads(miner, self.threads),
            seed=config.train.seed,
            budget_bytes=memory_budget(config.memory.budget),
        )
        if miner.name == AUTO:
            self.reporter.note(f"Miner: {name} ({reason})")
        if miner.num_candidates > rows:
            self.reporter.note(
                f"The bank has only {rows:,} rows, so the table has {rows:,} candidates per query "
                f"instead of {miner.num_candidates:,}."
            )
        budget = memory_budget(config.memory.budget)
        context = miner_context(config, self.threads, budget)
        k = min(miner.num_candidates, rows)
        work = Workload(rows=rows, dim=dim, queries=num_queries, k=k, refreshes=1)
        warning = above_budget(name, miner.options_of(name), work, context)
        if warning:
            self.reporter.note(warning)
        return MiningJob(
            bank=self.inputs.bank,
            queries=str(queries),
            k=k,
            miner=name,
            options=miner.options_of(name),
            context=context,
            out=str(self.folder / _FOUND),
            cache=str(cache_dir()),
        )

    def run(self, workers: MinerWorkers, job: MiningJob, stage: str = "mine") -> MiningReport:
        inputs, miner = self.inputs, self.config.miner
        self.reporter.stage(stage, inputs.num_queries)
        return workers.mine(
            job,
            [MinerChoice(name=name, options=miner.options_of(name)) for name in miner.fallback],
            deadline_s=deadlines(inputs.rows, inputs.dim, inputs.num_queries, miner.deadline_s),
            progress=self.reporter.advance,
        )

    def recall(self, workers: MinerWorkers, report: MiningReport, job: MiningJob) -> Recall | None:
        """On a sample of the queries, against the exact scan; None for an exact miner."""
        factory = plugins.usable("miner", report.miner)
        options = checked_options(factory, self.config.miner.options_of(report.miner))
        if factory.traits(options, job.context).exact or not report.queries:
            return None
        count = min(_SAMPLE, report.queries)
        rows = np.sort(Permutation(report.queries, key("recall"))(np.arange(count)))
        sample = self.folder / _SAMPLED
        np.save(sample, np.load(job.queries, mmap_mode="r")[rows])
        exact = replace(
            job.with_miner(MinerChoice(name="exact")),
            queries=str(sample),
            out=str(self.folder / _EXACT),
            cache=None,
        )
        truth = np.load(self.run(workers, exact, stage="check").ids_path)
        found = np.load(report.ids_path, mmap_mode="r")[rows]
        hits = [len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)]
        return Recall.of(np.array(hits) / truth.shape[1], of=report.queries)
