"""What a mining round found, on disk: the answers while a miner searches, then the candidate table.

A killed search continues after its last chunk. A table keeps the scores, because negatives are
filtered when they are drawn: a margin can change without mining again. It is a folder of .npy files
and a manifest of their hashes, written whole or not at all.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.data.sources import open_ref
from ttf.errors import ArtifactDamaged, BadAnswer
from ttf.mining.checked_answers import check_answers
from ttf.mining.choose import asked_of
from ttf.mining.growing_arrays import GrowingArrays, Layout
from ttf.mining.job import MiningJob, MiningReport
from ttf.rundir.confined import open_inside
from ttf.rundir.durable import OpenFile, link_to, write_manifest
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.typed_json import dataclass_from
from ttf.rundir.verified_folders import ARRAYS, MANIFEST, TABLE_AREA, verified_table

IDS: Final = "ids.npy"
SCORES: Final = "scores.npy"
ANSWERS_AREA: Final = "answers"
_ROWS: Final = 8192
_COPIED_BYTES: Final = 4 << 20
_TABLE_TYPES: Final = tuple(map(np.dtype, ("int64", "int64", "float32", "float32")))


class Journal:
    """`ids.npy` and `scores.npy`, filled chunk by chunk: see `ttf.mining.growing_arrays`."""

    def __init__(self, folder: Path, arrays: GrowingArrays) -> None:
        self._folder = folder
        self._arrays = arrays

    @classmethod
    def open(cls, folder: Path, shape: tuple[int, int], key: str) -> Self:
        """Continues the journal in `folder` if it has the same key; else starts a new one."""
        return cls(folder, GrowingArrays.open(folder, folder, _layouts(shape), key, ANSWERS_AREA))

    @classmethod
    def finished(cls, folder: Path, shape: tuple[int, int], key: str) -> Self | None:
        """A complete journal whose rows read back as written; None if there is none. Changes
        nothing."""
        found = GrowingArrays.finished(folder, folder, _layouts(shape), key, ANSWERS_AREA)
        return None if found is None else cls(folder, found)

    @staticmethod
    def forget(folder: Path) -> None:
        """Discards the journal: the next attempt starts from nothing."""
        GrowingArrays.forget(folder)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        return self._arrays.rows(name, start, stop)

    @property
    def done(self) -> int:
        return self._arrays.done

    def append(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Adds the next queries' answers; they are durable on return. Raises StorageError."""
        self._arrays.append(ids, scores, durable=True)

    def path(self, name: str) -> Path:
        return self._folder / name


def _layouts(shape: tuple[int, int]) -> dict[str, Layout]:
    return {IDS: Layout(shape, "<i8"), SCORES: Layout(shape, "<f4")}


# --- the report of a search -----------------------------------------------------------------------


def checked_report(job: MiningJob, values: Any) -> MiningReport:
    """Another process's report, checked: it answers the job, and its files hold the answers.

    Raises BadAnswer; sizes and paths in the report are not trusted.
    """
    with open_ref(job.bank) as bank:
        rows = bank.source.shape[0]
    wanted, below = asked_of(job)
    shape = num_queries(job), min(wanted, rows)
    report = _report(job, values, rows, shape, below=below is not None)
    ceilings = None if below is None else np.load(below, allow_pickle=False)
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
        limits = None if ceilings is None else ceilings[start:stop]
        check_answers(
            ids, scores, (stop - start, shape[1]), rows, job.miner, first=start, ceilings=limits
        )
    return report


def num_queries(job: MiningJob) -> int:
    return len(np.load(job.queries, mmap_mode="r", allow_pickle=False))


def _report(
    job: MiningJob, values: Any, rows: int, shape: tuple[int, int], *, below: bool
) -> MiningReport:
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
    expected = (job.miner, rows, *shape, str(folder / IDS), str(folder / SCORES), str, below)
    sizes = report.bank_rows, report.queries, report.k
    paths = report.ids_path, report.scores_path
    found = (report.miner, *sizes, *paths, type(report.key), report.below)
    whole = np.isfinite(took).all() and min(took) >= 0 and 0 <= continued <= shape[0]
    whole = whole and 0 <= rescanned <= shape[0] and 0.0 <= certified <= 1.0
    if found != expected or not whole:
        raise BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} answered a different request: {found} in "
            f"{took}, but {expected} was expected.",
        )
    return report


# --- the table of a round --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CandidateTable:
    """The k best bank rows of some training queries, best first; -1 with the score -inf where a query
    has fewer."""

    rows: NDArray[np.int64]  # (Q,) rows of the training split, ascending.
    ids: NDArray[np.int64]  # (Q, k) bank rows.
    scores: NDArray[np.float32]  # (Q, k) of the query tower at mining time.
    # (Q,) the lowest score among the query's known positives, under the same tower; NaN if none is
    # known.
    positive_scores: NDArray[np.float32]
    key: str  # Hash of what it was mined from; names its folder.
    version: str = "0"  # Of the document tower; always 0 if that is frozen.
    miner: str = ""
    # The best of those below the margins, not of all rows (miner.candidates).
    passing: bool = False
    within: int | None = None  # Only of the so many nearest ones.

    def __post_init__(self) -> None:
        queries, k = self.ids.shape
        shapes = self.rows.shape, self.positive_scores.shape, self.scores.shape
        types = self.rows.dtype, self.ids.dtype, self.scores.dtype, self.positive_scores.dtype
        if shapes != ((queries,), (queries,), (queries, k)) or types != _TABLE_TYPES:
            raise ValueError(f"arrays of {types} with the shapes {(self.ids.shape, *shapes)}")

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of sample rows in this table; -1 for rows that are not in it."""
        if not len(self.rows):
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1).astype(np.int64)

    def save(self, candidates: Path) -> Path:
        """Writes `<candidates>/<key>/`, durably; returns that folder."""
        folder = candidates / self.key
        candidates.mkdir(parents=True, exist_ok=True)
        with folder_written_whole(folder, TABLE_AREA) as temp:
            hashes = {f"{name}.npy": self._write(name, temp) for name in ARRAYS}
            facts = {
                "key": self.key,
                "version": self.version,
                "miner": self.miner,
                "queries": len(self),
                "k": int(self.ids.shape[1]),
                "passing": self.passing,
                "within": self.within,
            }
            write_manifest(temp / MANIFEST, facts, hashes, TABLE_AREA)
        return folder

    def _write(self, name: str, folder: Path) -> str:
        # Returns the hash of the intended bytes.
        file = OpenFile(folder / f"{name}.npy", TABLE_AREA)
        try:
            np.save(file, getattr(self, name), allow_pickle=False)
        finally:
            file.close()
        return file.sha256

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Verifies every file against its hash, then maps them. Raises ArtifactDamaged."""
        manifest = verified_table(folder)
        try:
            arrays: dict[str, Any] = {
                name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                for name in ARRAYS
            }
            table = cls(
                **arrays,
                key=str(manifest["key"]),
                version=str(manifest["version"]),
                miner=str(manifest["miner"]),
                passing=bool(manifest.get("passing", False)),
                within=manifest.get("within"),
            )
        except (LookupError, ValueError, OSError) as error:
            # The hashes are right: it was written like this, and not by ttf.
            raise ArtifactDamaged(
                f"The candidate table {folder} is damaged ({error}).",
                hint="Delete the folder: ttf then mines the candidates again.",
            ) from error
        return table


def taken_over(source: Path, inside: Path, folder: Path) -> None:
    """Makes `folder` the same table as `source`, a finished one below `inside`: other names of the
    same files where the disk has such, else copies. Raises StorageError."""
    with folder_written_whole(folder, TABLE_AREA) as temp:
        for name in (*(f"{array}.npy" for array in ARRAYS), MANIFEST):
            try:
                link_to(source / name, temp / name, TABLE_AREA)
            except OSError:  # it has no such names, or lies on another disk
                _copy_new(source / name, inside, temp / name)


def _copy_new(source: Path, inside: Path, target: Path) -> None:
    with (
        open_inside(source, inside) as given,
        contextlib.closing(OpenFile(target, TABLE_AREA)) as file,
    ):
        while part := given.read(_COPIED_BYTES):
            file.write(part)
