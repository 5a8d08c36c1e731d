"""`ttf mine`: a candidate table for the queries of a file or of a finished run.

Everything unfinished lies in `<out>.partial/`; the same command continues there. The result
appears at `out` when it is whole; whether it can is looked at before anything is mined.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ttf.config.schema import RunConfig
from ttf.data.order import Permutation, key
from ttf.data.sources import VectorRef
from ttf.data.vectors import FLOATS, UnitRows, to_float32
from ttf.errors import ArrayMissing, BadData, ConfigError, FolderInUse, storage_error
from ttf.host import plugins
from ttf.host.plugins import open_store
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
from ttf.mining.job import MinerChoice, MiningJob, MiningReport
from ttf.mining.miner_results import PROGRESS
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.cache import cache_dir
from ttf.rundir.durable import TEMP_PREFIX, read_json, sha256_file, write_json
from ttf.tools.mine.table_file import check_table, refuse_inputs, storage_of, write_table

if TYPE_CHECKING:
    from ttf.contracts import Store, VectorSource
    from ttf.text.progress import Reporter

_SAMPLE = 256
_BLOCK_ROWS = 4096
_FOUND = "found"


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
    recall_vs_exact: float
    """Share of the exact answers found, on a sample of queries; 1.0 where certified."""
    certified: bool
    """The miner is exact: nothing was sampled."""
    certificate_rate: float | None
    """Of an exact miner: the share of queries whose first scan vouched for its answer; the others
    were scanned again. None: it gave none, or all was done by an earlier attempt."""
    rescanned: int
    reused_index: bool
    continued_from: int
    deaths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where vectors come from: a bank that another process can open, and queries in blocks."""

    bank: VectorRef
    rows: int
    dim: int
    num_queries: int
    identity: str
    """Of the query vectors: equal for equal vectors."""
    blocks: Callable[[], Iterator[NDArray[np.float32]]]


def _open(uri: str, storage: str) -> Store:
    hint = "Rename the file, or name its storage plugin: --set data.storage=NAME."
    return open_store(uri, storage_of(uri, storage, hint))


@contextlib.contextmanager
def file_inputs(
    queries: Path | str, bank: Path | str, *, unit: bool, storage: str, say: Callable[[str], None]
) -> Iterator[Inputs]:
    """Ready-made query vectors: `vectors`, or an X_* of two dimensions."""
    with (
        contextlib.closing(_open(str(queries), storage)) as query_store,
        contextlib.closing(_open(str(bank), storage)) as bank_store,
    ):
        source = _query_source(query_store.source, list(query_store.names()), str(queries), say)
        documents = bank_store.source("vectors")
        _need_vectors(documents)
        if source.shape[1] != documents.shape[1]:
            raise BadData(
                f"{source.name} in {queries} has width {source.shape[1]}, vectors in {bank} "
                f"{documents.shape[1]}.",
                hint="Raw queries of another width need a trained tower: ttf mine RUN_DIR.",
            )
        seen = UnitRows(source) if unit else source
        yield Inputs(
            bank=VectorRef(uri=str(bank), array="vectors", storage=storage, unit=unit),
            rows=documents.shape[0],
            dim=documents.shape[1],
            num_queries=source.shape[0],
            identity=seen.fingerprint(),
            blocks=lambda: _blocks(seen),
        )


@contextlib.contextmanager
def run_inputs(run_dir: Path, bank: Path | str | None, out: Path) -> Iterator[Inputs]:
    """The training queries of a finished run, as its tower encodes them; row i is row i of the
    pairs file."""
    from ttf.config.resolve import load_run_toml
    from ttf.data.open_dataset import open_dataset
    from ttf.rundir.run_folder import RunFolder
    from ttf.training.inference import open_run

    folder = RunFolder.existing(run_dir)
    config = load_run_toml(folder.config).config.data
    if bank is not None:
        config = config.model_copy(update={"bank": str(bank)})
    refuse_inputs(out, [p for p in (config.pairs, config.bank, config.context) if p])
    with open_run(run_dir, bank=bank) as model, open_dataset(config) as data, _beside(out) as temp:
        queries = data.train.queries

        def blocks() -> Iterator[NDArray[np.float32]]:
            for start in range(0, len(queries), _BLOCK_ROWS):
                rows = np.arange(start, min(start + _BLOCK_ROWS, len(queries)), dtype=np.int64)
                batch = queries.batch(rows)
                yield model.encode_queries(batch.x, batch.lengths)

        weights = sha256_file(folder.model / "model.safetensors")
        yield Inputs(
            bank=model.documents.reference(temp),
            rows=data.bank.shape[0],
            dim=model.documents.dim,
            num_queries=len(queries),
            identity=f"{weights}|{data.fingerprint}",
            blocks=blocks,
        )


def mine(
    inputs: Inputs,
    out: Path,
    config: RunConfig,
    threads: int,
    reporter: Reporter,
    *,
    overwrite: bool = False,
) -> Mined:
    """Mines, continuing an interrupted attempt at the same `out`, and writes `out`."""
    started = time.monotonic()
    check_table(out, [], overwrite=overwrite)
    with _partial(out) as folder:
        queries = _queries_file(folder, inputs, reporter)
        job = _job(inputs, queries, folder, config, threads, reporter)
        with MinerWorkers(isolation=config.miner.isolation, say=reporter.note) as workers:
            report = _run(workers, job, inputs, config, reporter)
            recall, exact = _recall(workers, report, job, inputs, config, reporter, folder)
        write_table(out, report)
        shutil.rmtree(folder, ignore_errors=True)
    return Mined(
        out=str(out),
        queries=report.queries,
        bank=report.bank_rows,
        k=report.k,
        miner=report.miner,
        build_s=report.build_s,
        search_s=report.search_s,
        wall_s=time.monotonic() - started,
        recall_vs_exact=recall,
        certified=exact,
        certificate_rate=report.certificate_rate,
        rescanned=report.rescanned,
        reused_index=report.reused_index,
        continued_from=report.continued_from,
        deaths=report.deaths,
    )


def partial_folder(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


@contextlib.contextmanager
def _partial(out: Path) -> Iterator[Path]:
    """The folder beside `out`, ours alone while we are in it."""
    import filelock

    folder = partial_folder(out)
    lock = filelock.FileLock(out.with_name(f".{out.name}.lock"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise FolderInUse(
            f"Another process is mining into {out}.", hint="Wait for it, or choose another --out."
        ) from None
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    try:
        yield folder
    except (ConfigError, BadData):
        # The same command would fail again; answers, though, are never thrown away.
        if not _has_answers(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _has_answers(folder: Path) -> bool:
    try:
        return bool(read_json(folder / _FOUND / PROGRESS)["chunks"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A scratch folder on the disk of `out`: encoded documents may be large."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temp = tempfile.TemporaryDirectory(prefix=TEMP_PREFIX, dir=out.parent)
    except OSError as error:
        raise storage_error(error, str(out)) from error
    with temp as folder:
        yield Path(folder)


def _query_source(
    source: Callable[[str], VectorSource], names: list[str], path: str, say: Callable[[str], None]
) -> VectorSource:
    found = [n for n in ("vectors", *sorted(names)) if n in names]
    found = [n for n in dict.fromkeys(found) if n == "vectors" or n.startswith("X_")]
    if not found:
        raise ArrayMissing(
            f"{path} has neither `vectors` nor any X_*; it has: {', '.join(names) or 'nothing'}.",
            hint="Sequences of rows (seq_*) need a trained tower: ttf mine RUN_DIR.",
        )
    if len(found) > 1:
        say(
            f"{path} has several arrays of queries; taking {found[0]} (not {', '.join(found[1:])})."
        )
    chosen = source(found[0])
    _need_vectors(chosen)
    return chosen


def _need_vectors(source: VectorSource) -> None:
    if source.dtype in FLOATS and len(source.shape) == 2:
        return
    sequences = len(source.shape) == 3
    raise BadData(
        f"{source.name} in {source.uri} is {source.dtype} {source.shape}; it must be vectors, "
        "(rows, dim), float32, float16 or bfloat16.",
        hint="Sequences need a trained tower: ttf mine RUN_DIR." if sequences else "",
    )


def _blocks(source: VectorSource) -> Iterator[NDArray[np.float32]]:
    for start in range(0, source.shape[0], _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, source.shape[0])
        yield to_float32(source.read(start, stop), source.dtype)


def _queries_file(folder: Path, inputs: Inputs, reporter: Reporter) -> Path:
    """The query vectors as one mapped file; kept from an interrupted attempt if they are equal."""
    path, note = folder / "queries.npy", folder / "queries.json"
    with contextlib.suppress(OSError, ValueError):
        if read_json(note) == {"identity": inputs.identity, "sha256": sha256_file(path)}:
            return path
    reporter.stage("encode", inputs.num_queries)
    done = 0
    try:
        with path.open("wb") as file:
            header = {
                "descr": "<f4",
                "fortran_order": False,
                "shape": (inputs.num_queries, inputs.dim),
            }
            np.lib.format.write_array_header_1_0(file, header)
            for block in inputs.blocks():
                file.write(np.ascontiguousarray(block, dtype="<f4").data)
                done += len(block)
                reporter.advance(done, inputs.num_queries)
    except OSError as error:
        raise storage_error(error, str(path)) from error
    write_json(note, {"identity": inputs.identity, "sha256": sha256_file(path)})
    return path


def _job(
    inputs: Inputs,
    queries: Path,
    folder: Path,
    config: RunConfig,
    threads: int,
    reporter: Reporter,
) -> MiningJob:
    miner = config.miner
    name, reason = choose_miner(
        miner,
        rows=inputs.rows,
        dim=inputs.dim,
        queries=inputs.num_queries,
        refreshes=1,
        threads=miner_threads(miner, threads),
        seed=config.train.seed,
        budget_bytes=memory_budget(config.memory.budget),
    )
    if miner.name == AUTO:
        reporter.note(f"Miner: {name} ({reason})")
    if miner.k > inputs.rows:
        reporter.note(
            f"The bank has only {inputs.rows:,} rows: the table holds as many per query, "
            f"not {miner.k:,}."
        )
    context = miner_context(config, threads)
    k = min(miner.k, inputs.rows)
    work = Workload(rows=inputs.rows, dim=inputs.dim, queries=inputs.num_queries, k=k, refreshes=1)
    warning = above_budget(name, miner.options_of(name), work, context)
    if warning:
        reporter.note(warning)
    return MiningJob(
        bank=inputs.bank,
        queries=str(queries),
        k=k,
        miner=name,
        options=miner.options_of(name),
        context=context,
        out=str(folder / _FOUND),
        cache=str(cache_dir()),
    )


def _run(
    workers: MinerWorkers,
    job: MiningJob,
    inputs: Inputs,
    config: RunConfig,
    reporter: Reporter,
    stage: str = "mine",
) -> MiningReport:
    reporter.stage(stage, inputs.num_queries)
    return workers.mine(
        job,
        [MinerChoice(name=n, options=config.miner.options_of(n)) for n in config.miner.fallback],
        deadline_s=deadlines(inputs.rows, inputs.dim, inputs.num_queries, config.miner.deadline_s),
        progress=reporter.advance,
    )


def _recall(
    workers: MinerWorkers,
    report: MiningReport,
    job: MiningJob,
    inputs: Inputs,
    config: RunConfig,
    reporter: Reporter,
    folder: Path,
) -> tuple[float, bool]:
    """Recall of the answers on a keyed sample, against the exact scan; certified for exact ones."""
    factory = plugins.usable("miner", report.miner)
    options = checked_options(factory, config.miner.options_of(report.miner))
    if factory.traits(options, job.context).exact or not report.queries:
        return 1.0, True
    count = min(_SAMPLE, report.queries)
    rows = np.sort(Permutation(report.queries, key("recall"))(np.arange(count)))
    sample = folder / "sample.npy"
    np.save(sample, np.load(job.queries, mmap_mode="r")[rows])
    exact = replace(
        job.with_miner(MinerChoice(name="exact")),
        queries=str(sample),
        out=str(folder / "exact"),
        cache=None,
    )
    truth = np.load(_run(workers, exact, inputs, config, reporter, stage="check").ids_path)
    found = np.load(report.ids_path, mmap_mode="r")[rows]
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True))
    return hits / truth.size, False
