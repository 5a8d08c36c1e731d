"""A mining round that is not finished: what it has on the disk, behind which a killed one goes on.

`candidates/round-<key>/`, with the key of the table that it will make, a hash of all that the table
depends on. Query vectors, documents of a trained tower, the scores of the positives and the miner's
answers grow there in blocks (`ttf.mining.growing_arrays`). Blocks are cut by counts, never by
time, so an interrupted round ends with the bits of an undisturbed one. The flight record tells the
supervisor how many rows are kept.

Of several processes each makes its part and keeps it; the parts are joined anew after a death.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.sources import VectorRef, rows_of
from ttf.errors import storage_error
from ttf.mining.growing_arrays import GrowingArrays, Layout
from ttf.mining.job import MiningReport
from ttf.mining.negatives import ceilings
from ttf.mining.scan.merged_parts import best_of, keys_of, merged
from ttf.rundir.confined import names_in
from ttf.rundir.removing import remove_if_possible
from ttf.training.best_of_parts import best_of_parts
from ttf.training.encoded_queries import encoded_batches
from ttf.training.evaluation import lowest_positive_scores
from ttf.training.reused_queries import ReusedQueries
from ttf.training.round_cut import QUERIES_AT_ONCE, Cut
from ttf.training.session import Session

AREA: Final = "round"
PREFIX: Final = "round-"
# A killed round repeats so many at most. Writing them takes 0.1 to 2 ms (decision 0029).
BLOCK_ROWS: Final = 512
_QUERIES: Final = "queries.npy"
_VECTORS: Final = "vectors.npy"
_SCORES: Final = "scores.npy"
_IDS: Final = "ids.npy"


class MiningRound:
    """For these training rows and the current weights. `remove` it when its table is saved."""

    def __init__(self, session: Session, rows: NDArray[np.int64], key: str, cut: Cut) -> None:
        self._session = session
        self._team = session.team
        self._rows = rows
        self._cut = cut
        # The queries that the miner of this process answers: none if another one does it.
        self.own = self._team.mine(cut.queries)
        self._scored = self._team.own(len(rows), QUERIES_AT_ONCE)
        # Whose vectors this process needs. The queries of a miner begin and end where parts do.
        self._held = self.own or self._scored
        self._run = session.folder.path
        self.folder = session.folder.candidates / f"{PREFIX}{key}"
        self.queries = self.folder / "encoded" / _QUERIES
        plan, precision = session.decided.plan, session.decided.precision
        # Not in the table's key, but another cut has other bits.
        form = plan.micro_batch, precision.name, session.parts.documents.block_rows
        self._key = repr((key, session.policy.name, session.policy.threads, *form))
        self._kept: dict[str, int] = {}
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(self.folder)) from error

    def encode(self, reused: ReusedQueries | None) -> int:
        """Makes the file of query vectors; returns how many training had computed."""
        self._session.reporter.stage("encode queries", len(self._rows))
        team, count = self._team, len(self._rows)
        if reused is None and team.alone:
            self._encode(self._rows, range(count))
            return 0
        self.queries = self.folder / _QUERIES
        dim = self._session.parts.documents.dim
        out = team.stage(
            "query vectors", lambda: _mapped_file(self.queries, (len(self._held), dim))
        )
        there = np.zeros(count, np.bool_)
        if reused is not None:
            there = reused.fill(out, self._rows, self._held)
        missing = np.flatnonzero(~there)
        parts = team.parts(len(missing), self._at_once)
        own = team.mine(parts)
        some = self._rows[missing[own.start : own.stop]]
        encoded = team.stage("encoded queries", lambda: self._encode(some, own))
        read = partial(encoded.rows, _QUERIES)
        for start, vectors in team.pieces(parts, read, (dim,), np.dtype(np.float32)):
            self._hold(out, missing[start : start + len(vectors)], vectors)
        out.flush()
        return count - len(missing)

    def bank(self) -> VectorRef:
        """The documents for the miner; those of a trained tower are encoded first."""
        documents, team = self._session.parts.documents, self._team
        if documents.fixed:
            return team.stage("documents", self._stored_documents)
        parts = team.parts(documents.rows, documents.block_rows)
        own = team.mine(parts)
        vectors = team.stage("documents", lambda: self._encode_documents(own))
        folder = self.folder / "documents"
        if not team.alone:
            folder = self.folder / "bank"
            out = team.stage("bank", lambda: self._file_for_miner(folder / _VECTORS))
            read, row = partial(vectors.rows, _VECTORS), (documents.dim,)
            for start, rows in team.pieces(parts, read, row, np.dtype(np.float32)):
                _put(out, team.mine(self._cut.rows), start, rows)
            if out is not None:
                out.flush()
        return VectorRef(uri=str(folder.resolve()), array="vectors", storage="npz")

    def answered(self, done: int, total: int) -> None:
        """Progress of the miner, which keeps its answers itself; raises if an end was asked for."""
        self._keeps("answers", done)
        self._session.advance(done, total)

    def positive_scores(self) -> NDArray[np.float32]:
        """Of each query, the lowest score of its known positives."""
        team, count = self._team, len(self._rows)
        found = team.stage("scores of positives", self._score_positives)
        whole = np.empty(count, np.float32)
        parts, read = team.parts(count, QUERIES_AT_ONCE), partial(found.rows, _SCORES)
        for start, scores in team.pieces(parts, read, (), np.dtype(np.float32)):
            whole[start : start + len(scores)] = scores
        return whole

    def ceilings(self, positive_scores: NDArray[np.float32]) -> str:
        """The file of scores below which candidates of own queries pass the margins."""
        own = positive_scores[self.own.start : self.own.stop]
        found = self._open("ceilings", _SCORES, (len(own),), self.own)
        for start, stop in _spans(found.done, len(own)):
            settings = self._session.config.negatives
            self._append("ceilings", found, ceilings(own[start:stop], settings))
        return str(found.path(_SCORES))

    def answers(
        self, report: MiningReport | None, k: int, *, wanted: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """The ids and scores of all queries; None unless `wanted`. `report`: of the own ones."""
        if self._team.alone:
            assert report is not None
            return _mapped(report.ids_path), _mapped(report.scores_path)
        out = self._answer_files(k, wanted=wanted)
        of = None if report is None else report.ids_path
        self._join(None if out is None else out[0], of, k, np.dtype(np.int64))
        of = None if report is None else report.scores_path
        self._join(None if out is None else out[1], of, k, np.dtype(np.float32))
        return out

    def merged(
        self,
        report: MiningReport | None,
        width: int,
        k: int,
        below: NDArray[np.float32] | None,
        *,
        wanted: bool,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """As `answers`, where each miner searched a part of the bank. `width`: how many rows a miner
        found at most; `below`: ceilings of those of the `width` best that count."""
        out = self._answer_files(k, wanted=wanted)
        first_row = self._team.mine(self._cut.rows).start

        def read(start: int, stop: int) -> NDArray[np.int64]:
            assert report is not None
            found = _mapped(report.ids_path)[start:stop], _mapped(report.scores_path)[start:stop]
            return merged([keys_of(found, first_row)], width)

        for start, keys in best_of_parts(self._team, self._cut.queries, read, width):
            here = slice(start, start + len(keys))
            if out is not None:
                out[0][here], out[1][here] = best_of(
                    keys, k, None if below is None else below[here]
                )
        return out

    def remove(self) -> None:
        """It is over, or must begin anew."""
        remove_if_possible(self.folder, self._run, AREA)
        self._session.link.flight.keeps(0)

    # --- own parts ------------------------------------------------------------------------

    @property
    def _at_once(self) -> int:
        # Whole micro-batches, so that those after a death are the same.
        micro_batch = self._session.decided.plan.micro_batch
        return -(-BLOCK_ROWS // micro_batch) * micro_batch

    def _encode(self, rows: NDArray[np.int64], part: range) -> GrowingArrays:
        session = self._session
        encoded = self._open("encoded", _QUERIES, (len(rows), session.parts.documents.dim), part)
        done, waiting = encoded.done, list[NDArray[np.float32]]()
        batches = encoded_batches(
            session.parts.model,
            session.data.train,
            rows[done:],
            session.policy,
            session.decided.precision,
            session.decided.plan.micro_batch,
        )
        for _, vectors in batches:
            waiting.append(vectors)
            done += len(vectors)
            if done - encoded.done >= self._at_once or done == len(rows):
                self._append("encoded", encoded, np.concatenate(waiting))
                waiting.clear()
            session.advance(done, len(rows))
        return encoded

    def _encode_documents(self, part: range) -> GrowingArrays:
        documents = self._session.parts.documents
        vectors = self._open("documents", _VECTORS, (len(part), documents.dim), part)
        for _, block in documents.blocks(part.start + vectors.done, part.stop):
            self._append("documents", vectors, block.numpy())
            self._session.link.check_stop()
        return vectors

    def _score_positives(self) -> GrowingArrays:
        part, before = self._scored, self._held.start
        found = self._open("positives", _SCORES, (len(part),), part)
        queries = _mapped(self.queries)
        known = self._session.data.train.known(self._rows[part.start : part.stop])
        for start, stop in _spans(found.done, len(part), QUERIES_AT_ONCE):
            here = slice(part.start - before + start, part.start - before + stop)
            scores = lowest_positive_scores(
                queries[here], known[start:stop], self._session.parts.documents
            )
            self._append("positives", found, scores)
            self._session.link.check_stop()
        return found

    def _hold(
        self, out: NDArray[np.float32], places: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> None:
        first, last = np.searchsorted(places, (self._held.start, self._held.stop))
        out[places[first:last] - self._held.start] = vectors[first:last]

    def _stored_documents(self) -> VectorRef:
        found = self._session.parts.documents.reference(self.folder)
        own = self._team.mine(self._cut.rows)
        return rows_of(found, own, self.folder) if self._cut.by_rows else found

    def _file_for_miner(self, path: Path) -> np.memmap[Any, Any] | None:
        if not self.own:
            return None
        path.parent.mkdir(exist_ok=True)
        own = self._team.mine(self._cut.rows)
        return _mapped_file(path, (len(own), self._session.parts.documents.dim))

    def _join(
        self, out: NDArray[Any] | None, own: str | None, k: int, dtype: np.dtype[Any]
    ) -> None:
        found = np.empty((0, k), dtype) if own is None else _mapped(own)
        pieces = self._team.pieces(self._cut.queries, lambda a, b: found[a:b], (k,), dtype)
        for start, rows in pieces:
            _put(out, range(len(self._rows)), start, rows)

    def _answer_files(
        self, k: int, *, wanted: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        shape = (len(self._rows), k)
        return self._team.stage(
            "answers",
            lambda: (
                (
                    _mapped_file(self.folder / _IDS, shape, np.int64),
                    _mapped_file(self.folder / _SCORES, shape),
                )
                if wanted
                else None
            ),
        )

    def _open(self, part: str, name: str, shape: tuple[int, ...], of: range) -> GrowingArrays:
        key = self._key if self._team.alone else f"{self._key} {of.start}..{of.stop}"
        layouts = {name: Layout(shape, "<f4")}
        found = GrowingArrays.open(self.folder / part, self._run, layouts, key, AREA)
        self._keeps(part, found.done)
        return found

    def _append(self, part: str, arrays: GrowingArrays, block: NDArray[Any]) -> None:
        arrays.append(block)
        self._keeps(part, arrays.done)

    def _keeps(self, part: str, rows: int) -> None:
        self._kept[part] = rows
        self._session.link.flight.keeps(sum(self._kept.values()))


def remove_rounds(candidates: Path, run: Path, *, besides: str = "") -> None:
    """Removes what killed rounds have left, except for the table `besides`."""
    names: list[str] = []
    with contextlib.suppress(OSError):  # they may stay: the next round tries again
        names = names_in(candidates, run)
    for name in names:
        if name.startswith(PREFIX) and name != f"{PREFIX}{besides}":
            remove_if_possible(candidates / name, run, AREA)


def _spans(start: int, stop: int, at_once: int = 8192) -> Iterator[tuple[int, int]]:
    return ((at, min(at + at_once, stop)) for at in range(start, stop, at_once))


def _put(out: NDArray[Any] | None, held: range, start: int, rows: NDArray[Any]) -> None:
    """Of rows from `start` on, those that `out` holds."""
    first, last = max(start, held.start), min(start + len(rows), held.stop)
    if out is not None and first < last:
        out[first - held.start : last - held.start] = rows[first - start : last - start]


def _mapped(path: Path | str) -> NDArray[Any]:
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def _mapped_file(
    path: Path, shape: tuple[int, int], dtype: type[np.generic] = np.float32
) -> np.memmap[Any, Any]:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    # The file is sparse so far; writing through a map on a full disk would be SIGBUS.
    assert out.filename is not None
    with Path(out.filename).open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, out.offset + out.nbytes)
        else:
            file.seek(out.offset)
            file.writelines(bytes(out.strides[0]) for _ in range(len(out)))
    return out
