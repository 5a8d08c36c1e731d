"""The answers of a search: checked before they are used, and stored in parts.

A killed search continues after its last chunk. Miners are checked here and nowhere else: shapes,
ids and scores, by the process that searched and by the process that asked.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner
from ttf.data.sources import open_ref
from ttf.data.vectors import npy_header
from ttf.errors import ArtifactDamaged, BadAnswer, BadData, storage_error
from ttf.mining.job import MiningJob, MiningReport
from ttf.rundir.confined import open_inside, read_json, write_inside
from ttf.rundir.durable import fsync_dir, fsync_file, write_json
from ttf.rundir.removing import remove_if_there
from ttf.rundir.typed_json import dataclass_from

PROGRESS: Final = "progress.json"
IDS: Final = "ids.npy"
SCORES: Final = "scores.npy"
_DTYPES: Final[dict[str, np.dtype[Any]]] = {IDS: np.dtype("<i8"), SCORES: np.dtype("<f4")}
_ROWS: Final = 8192


class Journal:
    """`ids.npy` and `scores.npy`, filled from the top. `progress.json` holds the number of rows,
    and is written after the rows are durable. Complete files are ordinary .npy files."""

    def __init__(self, folder: Path, shape: tuple[int, int], key: str) -> None:
        self._folder = folder
        self._shape = shape
        self._key = key
        self._chunks: list[dict[str, Any]] = []

    @classmethod
    def open(cls, folder: Path, shape: tuple[int, int], key: str) -> Self:
        """Continues the journal in `folder` if it has the same key and reads back; else starts a
        new one."""
        journal = cls(folder, shape, key)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if not journal._resume():
                journal._start()
        except OSError as error:
            raise storage_error(error, str(folder)) from error
        return journal

    @classmethod
    def finished(cls, folder: Path, shape: tuple[int, int], key: str) -> Self | None:
        """A complete journal whose rows read back as written; None if there is none. Changes
        nothing."""
        journal = cls(folder, shape, key)
        try:
            whole = journal._resume() and journal.done == shape[0]
            whole = whole and all(
                journal.path(name).stat().st_size == journal._offset(name, shape[0])
                for name in _DTYPES
            )
        except OSError:
            return None
        return journal if whole else None

    @staticmethod
    def forget(folder: Path) -> None:
        """Discards the journal: the next attempt starts from nothing."""
        with contextlib.suppress(OSError):  # then it cannot be continued either
            remove_if_there(folder / PROGRESS, folder)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        # Read, not mapped: if a file is cut meanwhile, this raises and is no SIGBUS.
        with open_inside(self.path(name), self._folder) as file:
            file.seek(self._offset(name, start))
            found = np.fromfile(file, _DTYPES[name], (stop - start) * self._shape[1])
        return found.reshape(-1, self._shape[1])

    @property
    def done(self) -> int:
        return sum(int(chunk["queries"]) for chunk in self._chunks)

    def append(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Adds the next queries' answers; they are durable on return. Raises StorageError."""
        chunk: dict[str, Any] = {"queries": len(ids)}
        try:
            answers: dict[str, NDArray[Any]] = {IDS: ids, SCORES: scores}
            for name, values in answers.items():
                data = values.astype(_DTYPES[name], copy=False).tobytes()
                chunk[name] = zlib.crc32(data)
                with write_inside(self.path(name), self._folder) as file:
                    file.seek(self._offset(name, self.done))
                    file.write(data)
                    file.flush()
                    fsync_file(file.fileno())
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error
        self._chunks.append(chunk)
        self._write_progress()

    def path(self, name: str) -> Path:
        return self._folder / name

    def _start(self) -> None:
        self._chunks = []
        remove_if_there(self._folder / PROGRESS, self._folder)
        for name in _DTYPES:
            with write_inside(self.path(name), self._folder, anew=True) as file:
                file.write(self._header(name))
                file.flush()
                fsync_file(file.fileno())
        fsync_dir(self._folder)
        self._write_progress()

    def _resume(self) -> bool:
        try:
            progress = read_json(self._folder / PROGRESS, self._folder)
            self._chunks = list(progress["chunks"])
            same = (progress["key"], progress["shape"]) == (self._key, list(self._shape))
            same = same and all(0 < chunk["queries"] <= self._shape[0] for chunk in self._chunks)
            same = same and self.done <= self._shape[0]
            return same and all(self._reads_back(name) for name in _DTYPES)
        except (FileNotFoundError, ArtifactDamaged, KeyError, TypeError):
            return False

    def _reads_back(self, name: str) -> bool:
        """True if the finished rows of a file are as written."""
        row = self._shape[1] * _DTYPES[name].itemsize
        with open_inside(self.path(name), self._folder) as file:
            if file.read(self._offset(name, 0)) != self._header(name):
                return False
            return all(
                zlib.crc32(file.read(int(chunk["queries"]) * row)) == chunk[name]
                for chunk in self._chunks
            )

    def _write_progress(self) -> None:
        write_json(
            self._folder / PROGRESS,
            {"key": self._key, "shape": list(self._shape), "chunks": self._chunks},
        )

    def _header(self, name: str) -> bytes:
        return npy_header(self._shape, _DTYPES[name])

    def _offset(self, name: str, rows: int) -> int:
        return len(self._header(name)) + rows * self._shape[1] * int(_DTYPES[name].itemsize)


# --- checks ----------------------------------------------------------------------------------------


def checked_search(
    miner: Miner, queries: NDArray[np.float32], k: int, rows: int, *, name: str
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`miner.search` of a bank with `rows` rows. Raises BadAnswer, naming the miner and the query.

    Approximate libraries read damaged memory without complaint: an id out of range is a fault that
    must not reach the trainer.
    """
    bad = np.flatnonzero(~np.isfinite(queries).all(axis=1))
    if bad.size:
        raise BadData(
            f"Query {bad[0]} of {len(queries)} contains NaN or infinity ({bad.size} such queries "
            "in total).",
            hint="To find the wrong rows: ttf data verify FILE",
        )
    ids, scores = miner.search(queries, k)
    _check_answers(ids, scores, (len(queries), min(k, rows)), rows, name)
    return ids, scores


def checked_report(job: MiningJob, values: Any) -> MiningReport:
    """Another process's report, checked: it answers the job, and its files hold the answers.

    Raises BadAnswer; sizes and paths in the report are not trusted.
    """
    with open_ref(job.bank) as bank:
        rows = bank.source.shape[0]
    shape = num_queries(job), min(job.k, rows)
    report = _report(job, values, rows, shape)
    journal = Journal.finished(Path(job.out), shape, report.key)
    if journal is None:
        raise BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} reported an answer, but the files in "
            f"{job.out} are incomplete or have changed.",
        )
    for start in range(0, shape[0], _ROWS):
        stop = min(start + _ROWS, shape[0])
        try:
            ids, scores = (journal.rows(name, start, stop) for name in (IDS, SCORES))
        except (OSError, ValueError) as error:
            raise BadAnswer(
                job.miner, f"ttf wrote {job.out} and could not read it again: {error}"
            ) from error
        _check_answers(ids, scores, (stop - start, shape[1]), rows, job.miner, first=start)
    return report


def num_queries(job: MiningJob) -> int:
    return len(np.load(job.queries, mmap_mode="r", allow_pickle=False))


def _report(job: MiningJob, values: Any, rows: int, shape: tuple[int, int]) -> MiningReport:
    try:
        report = dataclass_from(MiningReport, values)
        took = float(report.build_s), float(report.search_s)
        continued = int(report.continued_from)
        rescanned = int(report.rescanned)
        certified = float(report.certificate_rate or 0.0)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} sent an invalid report: {error!r}.",
        ) from None
    folder = Path(job.out)
    expected = (job.miner, rows, *shape, str(folder / IDS), str(folder / SCORES), str)
    sizes = report.bank_rows, report.queries, report.k
    found = (report.miner, *sizes, report.ids_path, report.scores_path, type(report.key))
    whole = np.isfinite(took).all() and min(took) >= 0 and 0 <= continued <= shape[0]
    whole = whole and 0 <= rescanned <= shape[0] and 0.0 <= certified <= 1.0
    if found != expected or not whole:
        raise BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} answered a different request: {found} in "
            f"{took}, but {expected} was expected.",
        )
    return report


def _check_answers(
    ids: NDArray[np.int64],
    scores: NDArray[np.float32],
    expected: tuple[int, int],
    rows: int,
    name: str,
    *,
    first: int = 0,
) -> None:
    for what, array, dtype in (("ids", ids, np.int64), ("scores", scores, np.float32)):
        if not isinstance(array, np.ndarray):
            raise BadAnswer(
                name,
                (
                    f"The miner {name!r} returned {what} as {type(array).__name__}, but it "
                    "must return an array."
                ),
            )
        if array.shape != expected or array.dtype != dtype:
            raise BadAnswer(
                name,
                f"The miner {name!r} returned {what} with the type {array.dtype} and the shape "
                f"{array.shape}, but it must return {np.dtype(dtype)} {expected}.",
            )
    _check_ids(ids, rows, name, first)
    if not np.isfinite(scores).all():
        query, rank = np.argwhere(~np.isfinite(scores))[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned the invalid score {scores[query, rank]} for query "
            f"{first + query} at rank {rank}.",
        )


def _check_ids(ids: NDArray[np.int64], rows: int, name: str, first: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= rows):
        wrong = np.argwhere((ids < 0) | (ids >= rows))
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ids[query, rank]} for query {first + query} at "
            f"rank {rank}, but the bank has rows 0 to {rows - 1} ({len(wrong):,} invalid ids in "
            "total).",
        )
    ordered = np.sort(ids, axis=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    if same.any():
        query, place = np.argwhere(same)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} returned row {ordered[query, place]} twice for query "
            f"{first + query}.",
        )
