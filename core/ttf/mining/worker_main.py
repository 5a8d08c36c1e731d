"""Does mining jobs in this process: opens the bank, prepares the miner, searches in chunks.

Runs inside the worker (`ttf.process.serve` calls `mine` there, once per request), or inside the
trainer with isolation = "none". Imports the miner's library and nothing heavier; torch only if the
miner does.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner, Progress, VectorSource
from ttf.data.kept_for import content_key
from ttf.data.sources import OpenRef, open_ref
from ttf.errors import (
    ArtifactDamaged,
    BadData,
    DataChanged,
    EntryRefused,
    StorageError,
    TtfError,
    storage_error,
)
from ttf.host import notices, plugins
from ttf.machine.memory.allocator import give_back
from ttf.mining.checked_answers import checked_search
from ttf.mining.choose import asked_of, checked_options
from ttf.mining.job import IndexRecord, MiningJob, MiningReport
from ttf.mining.miner_results import IDS, SCORES, Journal
from ttf.mining.provenance import code_of, versions_of
from ttf.mining.scan.scan_counters import Certifies, ScanTally
from ttf.process.collector import paused_for_imports
from ttf.rundir.confined import sha256_file
from ttf.rundir.durable import TEMP_PREFIX, write_manifest
from ttf.rundir.removing import folder_written_whole, remove_if_possible, remove_if_there
from ttf.rundir.typed_json import dataclass_from
from ttf.rundir.verified_folders import (
    MANIFEST,
    PRIVATE,
    folder_key,
    lock_folder,
    refuse_others,
    verified_manifest,
)

Say = Callable[[str], None]


@dataclass(kw_only=True)
class _Ready:
    key: str
    bank: OpenRef
    miner: Miner
    index: IndexRecord | None
    build_s: float

    def close(self) -> None:
        with self.bank:
            self.miner.close()


class Searcher:
    """Does jobs one after another; keeps the last job's index if the next can use it."""

    def __init__(
        self, importing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> None:
        """`importing` surrounds the creation of a miner, which imports its library."""
        self._importing = importing
        self._ready: _Ready | None = None

    def do(self, job: MiningJob, say: Say, progress: Progress) -> MiningReport:
        """Answers every query of the job; keeps what an earlier attempt finished."""
        try:
            report = self._do(job, say, progress)
        except BaseException:
            self.release()
            raise
        if job.cache is None:
            self.release()
        return report

    def release(self) -> None:
        """Frees the memory of the index."""
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.close()

    def _do(self, job: MiningJob, say: Say, progress: Progress) -> MiningReport:
        queries = _queries(job)
        with open_ref(job.bank) as bank:
            rows = _rows_of_bank(queries, bank.source)
            wanted, below = asked_of(job)
            k = min(wanted, rows)
            made_from = _made_from(job, bank.source)
            asked: dict[str, Any] = {"k": k, "queries": _digest(Path(job.queries))}
            if below is not None:
                asked |= {"below": _digest(Path(below)), "within": job.within}
            ceilings = None if below is None else _ceilings(below, len(queries))
            key = folder_key({**made_from, **asked})
            journal = Journal.open(Path(job.out), (len(queries), k), key)
            earlier = journal.done
            progress(earlier, len(queries))  # before the index is ready, which may take long
            index, build_s, search_s, tally = None, 0.0, 0.0, None
            if earlier < len(queries):
                ready = self._make_ready(job, made_from, say)
                index, build_s, ready.build_s = ready.index, ready.build_s, 0.0
                search_s = _search(job, queries, ceilings, k, rows, ready.miner, journal, progress)
                tally = _take_tally(ready.miner, say)
                ready.bank.store.check_unchanged()
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
            certificate_rate=None if tally is None else tally.rate,
            rescanned=0 if tally is None else tally.rescanned,
            below=below is not None,
        )

    def _make_ready(self, job: MiningJob, made_from: dict[str, Any], say: Say) -> _Ready:
        key = folder_key({**made_from, "context": asdict(job.context), "uri": job.bank.uri})
        if self._ready is not None and self._ready.key == key and _unchanged(self._ready.bank):
            index = self._ready.index
            self._ready.index = None if index is None else replace(index, origin="reused")
            return self._ready
        self.release()  # first, so that two indexes are never held at once
        with contextlib.ExitStack() as on_failure:
            bank = on_failure.enter_context(open_ref(job.bank))
            started = time.monotonic()
            context = replace(job.context, cache=job.cache)
            with self._importing():
                miner = plugins.usable("miner", job.miner).create(_options(job), context)
            on_failure.callback(miner.close)
            index = _build(job, miner, bank.source, made_from, say)
            on_failure.pop_all()
        build_s = time.monotonic() - started
        self._ready = _Ready(key=key, bank=bank, miner=miner, index=index, build_s=build_s)
        return self._ready


# The worker's: index and imports stay from one request to the next.
_SEARCHER: Final = Searcher(paused_for_imports)


def mine(request: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Does one request; the report is the answer."""

    def say(text: str) -> None:
        tell({"say": text})

    notices.hear(say)
    job = dataclass_from(MiningJob, request)
    try:
        report = _SEARCHER.do(job, say, lambda done, total: tell({"progress": [done, total]}))
    except TtfError:
        raise
    except Exception:
        traceback.print_exc()  # for the worker's standard error, if it is killed for this
        raise
    tell({"answer": asdict(report)})
    give_back()  # after the answer: until the next request, which may be long in coming


def _digest(own: Path) -> str:
    return sha256_file(own, own.parent)


def _queries(job: MiningJob) -> NDArray[np.float32]:
    queries = np.load(job.queries, mmap_mode="r", allow_pickle=False)
    if queries.ndim != 2 or queries.dtype != np.float32:
        raise BadData(
            f"{job.queries} has the type {queries.dtype} and the shape {queries.shape}. It "
            "must be float32 with the shape (Q, D)."
        )
    return queries  # type: ignore[no-any-return]


def _ceilings(file: str, queries: int) -> NDArray[np.float32]:
    found = np.load(file, allow_pickle=False)
    if found.shape != (queries,) or found.dtype != np.float32:
        raise BadData(
            f"{file} has the type {found.dtype} and the shape {found.shape}. It must be float32 with "
            f"the shape ({queries},)."
        )
    return found  # type: ignore[no-any-return]


def _rows_of_bank(queries: NDArray[np.float32], bank: VectorSource) -> int:
    rows, dim = bank.shape
    if queries.shape[1] != dim:
        raise BadData(
            f"The queries have the width {queries.shape[1]}, but the bank {bank.uri} has the "
            f"width {dim}.",
            hint="Queries and bank must contain vectors of the same model.",
        )
    return rows


def _unchanged(bank: OpenRef) -> bool:
    try:
        bank.store.check_unchanged()
    except DataChanged:  # the content may be the same all the same: the key says so
        return False
    return True


def _search(
    job: MiningJob,
    queries: NDArray[np.float32],
    ceilings: NDArray[np.float32] | None,
    k: int,
    rows: int,
    miner: Miner,
    journal: Journal,
    progress: Progress,
) -> float:
    started = time.monotonic()
    while journal.done < len(queries):  # each turn ends with a durable point
        here = slice(journal.done, journal.done + job.context.queries_at_once)
        limits: dict[str, Any] = (
            {} if ceilings is None else {"ceilings": ceilings[here], "within": job.within}
        )
        found = checked_search(miner, np.array(queries[here]), k, rows, name=job.miner, **limits)
        journal.append(*found)
        progress(journal.done, len(queries))
    return time.monotonic() - started


def _take_tally(miner: Miner, say: Say) -> ScanTally | None:
    # What the miner counted in this job: a new tally counts the next one.
    if not isinstance(miner, Certifies):
        return None
    for note in miner.tally.take_notes():
        say(note)
    tally, miner.tally = miner.tally, ScanTally()
    return tally


def _build(
    job: MiningJob, miner: Miner, source: VectorSource, made_from: dict[str, Any], say: Say
) -> IndexRecord | None:
    traits = plugins.usable("miner", job.miner).traits(_options(job), job.context)
    with _scratch(Path(job.out)) as workdir:
        if job.cache is None or not traits.has_index:
            miner.build(source, workdir)
            return None
        return ready_index(Path(job.cache), made_from, miner, source, workdir, say)


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    # Working files of an index build, in the job's own folder: removed with it after a kill.
    folder = out / f"{TEMP_PREFIX}build"
    try:
        remove_if_there(folder, out)
        folder.mkdir(parents=True)
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    try:
        yield folder
    finally:
        remove_if_possible(folder, out)


def _options(job: MiningJob) -> Any:
    return checked_options(plugins.usable("miner", job.miner), job.options)


def _made_from(job: MiningJob, source: VectorSource) -> dict[str, Any]:
    """Everything an index depends on; a bank's fingerprint says if it is at unit length."""
    plugin = plugins.find("miner", job.miner)
    options = _options(job)
    traits = plugins.usable("miner", job.miner).traits(options, job.context)
    rows = job.bank.rows_path
    return {
        # Without a cache it is a file of this run, which is written again after a death.
        "bank": source.fingerprint() if job.cache is None else content_key(source),
        "shape": list(source.shape),
        "unit": job.bank.unit,
        "rows": None if rows is None else _digest(Path(rows)),
        "miner": job.miner,
        "options": asdict(options),
        "deterministic": job.context.deterministic,
        "seed": job.context.seed,
        "plugin": f"{plugin.distribution} {plugin.version}",
        "code": code_of(plugin),
        "libraries": versions_of(traits.native),
        "api": plugins.API,
    }


# --- indexes of frozen banks, built once for all runs: `<cache>/index/<key>/` ---------------------


def ready_index(
    cache: Path,
    made_from: Mapping[str, Any],
    miner: Miner,
    source: VectorSource,
    workdir: Path,
    say: Say,
) -> IndexRecord:
    """Makes `miner` ready to search: from the cache, or built and stored there.

    Two runs never build the same index at once; the second waits and loads. An index that cannot be
    stored is used from memory, with a message.
    """
    folder = cache / "index" / folder_key(made_from)
    try:
        lock = lock_folder(folder, say)
    except (OSError, EntryRefused) as error:
        say(
            f"The index cache {folder.parent} cannot be used ({error}). ttf builds the index "
            "without the cache."
        )
        miner.build(source, workdir)
        return _record(folder, made_from, None)
    with lock:
        hashes = _load_index(folder, miner, source, say)
        if hashes is not None:
            return _record(folder, made_from, hashes, "reused")
        miner.build(source, workdir)
        return _record(folder, made_from, _store_index(folder, miner, made_from, say))


def _load_index(
    folder: Path, miner: Miner, source: VectorSource, say: Say
) -> Mapping[str, str] | None:
    """Hashes of the files that the miner loaded; None if there is nothing to load."""
    if not folder.exists():
        return None
    try:
        refuse_others(folder)
        hashes: Mapping[str, str] = verified_manifest(folder, "The index")["sha256"]
        miner.load(folder, source)
    except ArtifactDamaged as error:
        say(f"{error} ttf builds a new index.")
        return None
    except TtfError:
        raise
    except Exception as error:  # noqa: BLE001 - third-party code: an unreadable file is no crash
        say(
            f"The miner could not load the index {folder} ({type(error).__name__}: {error}). ttf "
            "builds a new index."
        )
        return None
    return hashes


def _store_index(
    folder: Path, miner: Miner, made_from: Mapping[str, Any], say: Say
) -> Mapping[str, str] | None:
    """Hashes of the written files; None if the disk did not take them."""
    try:
        with folder_written_whole(folder, "index") as temp:
            miner.save(temp)
            hashes = {file.name: _digest(file) for file in sorted(temp.iterdir())}
            facts = {"key": folder.name, "made_from": dict(made_from)}
            write_manifest(temp / MANIFEST, facts, hashes, "index")
            temp.chmod(PRIVATE)
    except StorageError as error:
        say(f"{error} ttf uses the index in memory and does not save it. {error.hint}".rstrip())
        return None
    return hashes


def _record(
    folder: Path,
    made_from: Mapping[str, Any],
    hashes: Mapping[str, str] | None,
    origin: Literal["built", "reused"] = "built",
) -> IndexRecord:
    return IndexRecord(
        key=folder.name,
        origin=origin,
        path=None if hashes is None else str(folder),
        size_bytes=sum((folder / name).stat().st_size for name in hashes or ()),
        sha256=hashes or {},
        made_from=made_from,
    )
