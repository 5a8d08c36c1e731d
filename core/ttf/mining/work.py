"""One mining job done in this process: open the bank, make the miner ready, search in chunks.

Runs inside the worker, or inside the trainer with isolation = "none". Imports the miner's library
and nothing heavier.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ttf import host
from ttf.contracts import Miner, MinerTraits, Progress, VectorSource
from ttf.data.refs import open_ref
from ttf.errors import BadData
from ttf.fsio import sha256_file
from ttf.mining.checked import checked_search
from ttf.mining.choose import checked_options
from ttf.mining.index_cache import IndexRecord, index_key, ready_index
from ttf.mining.job import MiningJob, MiningReport
from ttf.mining.journal import IDS, SCORES, Journal

Say = Callable[[str], None]


def do_job(job: MiningJob, say: Say, progress: Progress) -> MiningReport:
    """Answers every query of the job; what an earlier attempt finished is kept."""
    queries = np.load(job.queries, mmap_mode="r", allow_pickle=False)
    if queries.ndim != 2 or queries.dtype != np.float32:
        raise BadData(f"{job.queries} is {queries.dtype} {queries.shape}, not float32 (Q, D).")
    with open_ref(job.bank) as bank:
        rows, dim = bank.source.shape
        if queries.shape[1] != dim:
            raise BadData(
                f"The queries have width {queries.shape[1]}, the bank {bank.source.uri} {dim}.",
                hint="Both must come from the same kind of vectors.",
            )
        k = min(job.k, rows)
        made_from = _made_from(job, bank.source)
        key = index_key({**made_from, "k": k, "queries": sha256_file(Path(job.queries))})
        journal = Journal.open(Path(job.out), (len(queries), k), key)
        earlier = journal.done
        index, build_s, search_s = None, 0.0, 0.0
        if earlier < len(queries):
            index, build_s, search_s = _search_all(
                job, queries, k, bank.source, made_from, journal, say, progress
            )
            bank.store.check_unchanged()
    return MiningReport(
        miner=job.miner,
        bank_rows=rows,
        queries=len(queries),
        k=k,
        build_s=build_s,
        search_s=search_s,
        continued_from=earlier,
        index=index,
        key=key,
        ids_path=str(journal.path(IDS)),
        scores_path=str(journal.path(SCORES)),
    )


def _search_all(
    job: MiningJob,
    queries: Any,
    k: int,
    source: VectorSource,
    made_from: dict[str, Any],
    journal: Journal,
    say: Say,
    progress: Progress,
) -> tuple[IndexRecord | None, float, float]:
    factory = host.miner(job.miner)
    options = checked_options(factory, job.options)
    miner = factory.create(options, job.context)
    try:
        with tempfile.TemporaryDirectory(prefix="ttf-miner-") as workdir:
            started = time.monotonic()
            traits = factory.traits(options, job.context)
            index = _make_ready(job, traits, miner, source, made_from, Path(workdir), say)
            built = time.monotonic()
            while journal.done < len(queries):
                chunk = np.array(queries[journal.done : journal.done + job.chunk])
                found = checked_search(miner, chunk, k, source.shape[0], name=job.miner)
                journal.append(*found)
                progress(journal.done, len(queries))
        return index, built - started, time.monotonic() - built
    finally:
        miner.close()


def _make_ready(
    job: MiningJob,
    traits: MinerTraits,
    miner: Miner,
    source: VectorSource,
    made_from: dict[str, Any],
    workdir: Path,
    say: Say,
) -> IndexRecord | None:
    if job.cache is None or not traits.has_index:
        miner.build(source, workdir)
        return None
    return ready_index(Path(job.cache), made_from, miner, source, workdir, say)


def _made_from(job: MiningJob, source: VectorSource) -> dict[str, Any]:
    """Everything an index follows from; a bank's fingerprint says whether it is at unit length."""
    plugin = host.find("miner", job.miner)
    rows = job.bank.rows_path
    return {
        "bank": source.fingerprint(),
        "shape": list(source.shape),
        "unit": job.bank.unit,
        "rows": None if rows is None else hashlib.sha256(Path(rows).read_bytes()).hexdigest(),
        "miner": job.miner,
        "options": asdict(checked_options(host.miner(job.miner), job.options)),
        "deterministic": job.context.deterministic,
        "seed": job.context.seed,
        "plugin": f"{plugin.distribution} {plugin.version}",
        "api": host.API,
    }
