"""The one place where answers of a miner are believed: shapes, ids and scores are checked here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import Miner
from ttf.data.vector_ref import open_ref
from ttf.errors import BadAnswer, BadData
from ttf.mining.job import MiningJob, MiningReport
from ttf.mining.journal import IDS, SCORES, Journal

_ROWS: Final = 8192


def checked_search(
    miner: Miner, queries: NDArray[np.float32], k: int, rows: int, *, name: str
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`miner.search` of a bank with `rows` rows. Raises BadAnswer, naming the miner and the query.

    Approximate libraries read damaged memory without complaint: an id out of range is a fault
    that must not reach the trainer.
    """
    bad = np.flatnonzero(~np.isfinite(queries).all(axis=1))
    if bad.size:
        raise BadData(
            f"Query {bad[0]} of {len(queries)} holds NaN or infinity ({bad.size} such in all).",
            hint="Look at them with: ttf data verify FILE",
        )
    ids, scores = miner.search(queries, k)
    _check_answers(ids, scores, (len(queries), min(k, rows)), rows, name)
    return ids, scores


def checked_report(job: MiningJob, values: Any) -> MiningReport:
    """What another process says it did, if that is what was asked for and its files hold it.

    Raises BadAnswer; nothing the report says about sizes or paths is taken on trust.
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
            f"{job.out} are not what it wrote, or not whole.",
        )
    for start in range(0, shape[0], _ROWS):
        stop = min(start + _ROWS, shape[0])
        try:
            ids, scores = (journal.rows(name, start, stop) for name in (IDS, SCORES))
        except (OSError, ValueError) as error:
            raise BadAnswer(job.miner, f"{job.out} cannot be read back: {error}") from error
        _check_answers(ids, scores, (stop - start, shape[1]), rows, job.miner, first=start)
    return report


def num_queries(job: MiningJob) -> int:
    return len(np.load(job.queries, mmap_mode="r", allow_pickle=False))


def _report(job: MiningJob, values: Any, rows: int, shape: tuple[int, int]) -> MiningReport:
    try:
        report = MiningReport.from_json(values)
        took = float(report.build_s), float(report.search_s)
        continued = int(report.continued_from)
        rescanned = int(report.rescanned)
        certified = float(report.certificate_rate or 0.0)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} sent a report that is none: {error!r}.",
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
            f"The process of the miner {job.miner!r} answered another question: {found} in "
            f"{took}, expected {expected}.",
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
    """`first`: the number of the first query, for messages."""
    for what, array, dtype in (("ids", ids, np.int64), ("scores", scores, np.float32)):
        if not isinstance(array, np.ndarray):
            raise BadAnswer(
                name, f"The miner {name!r} returned {what} as {type(array).__name__}, not an array."
            )
        if array.shape != expected or array.dtype != dtype:
            raise BadAnswer(
                name,
                f"The miner {name!r} returned {what} as {array.dtype} {array.shape}, "
                f"expected {np.dtype(dtype)} {expected}.",
            )
    _check_ids(ids, rows, name, first)
    if not np.isfinite(scores).all():
        query, rank = np.argwhere(~np.isfinite(scores))[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} gave query {first + query} the score {scores[query, rank]} at "
            f"rank {rank}.",
        )


def _check_ids(ids: NDArray[np.int64], rows: int, name: str, first: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= rows):
        wrong = np.argwhere((ids < 0) | (ids >= rows))
        query, rank = wrong[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} answered query {first + query} with row {ids[query, rank]} at "
            f"rank {rank}, but the bank has rows 0 to {rows - 1} ({len(wrong):,} such ids in all).",
        )
    ordered = np.sort(ids, axis=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    if same.any():
        query, place = np.argwhere(same)[0]
        raise BadAnswer(
            name,
            f"The miner {name!r} answered query {first + query} with row {ordered[query, place]} "
            "twice.",
        )
