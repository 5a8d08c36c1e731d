"""A mining round that is not finished: what it has on the disk, behind which a killed one goes on.

`candidates/round-<key>/`, with the key of the table that it will make, a hash of all that the table
depends on. Query vectors, documents of a trained tower, the scores of the positives and the miner's
answers grow there in blocks (`ttf.mining.growing_arrays`). Blocks are cut by counts, never by
time, so an interrupted round ends with the bits of an undisturbed one. The flight record tells the
supervisor how many rows are kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.sources import VectorRef
from ttf.errors import storage_error
from ttf.mining.growing_arrays import GrowingArrays, Layout
from ttf.mining.negatives import ceilings
from ttf.rundir.confined import names_in
from ttf.rundir.removing import remove_if_possible
from ttf.training.encoded_queries import encoded_batches
from ttf.training.evaluation import lowest_positive_scores
from ttf.training.reused_queries import ReusedQueries
from ttf.training.session import Session

AREA: Final = "round"
PREFIX: Final = "round-"
# A killed round repeats so many at most. Writing them takes 0.1 to 2 ms (decision 0029).
BLOCK_ROWS: Final = 512
_POSITIVES_AT_ONCE: Final = 1024
_QUERIES: Final = "queries.npy"
_SCORES: Final = "scores.npy"


class MiningRound:
    """For these training rows and the current weights. `remove` it when its table is saved."""

    def __init__(self, session: Session, rows: NDArray[np.int64], key: str) -> None:
        self._session = session
        self._rows = rows
        self._run = session.folder.path
        self.folder = session.folder.candidates / f"{PREFIX}{key}"
        self.queries = self.folder / "encoded" / _QUERIES
        plan, precision = session.decided.plan, session.decided.precision
        # Not in the table's key, but another cut has other bits.
        cut = plan.micro_batch, precision.name, session.parts.documents.block_rows
        self._key = repr((key, session.policy.name, session.policy.threads, *cut))
        self._kept: dict[str, int] = {}
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(self.folder)) from error

    def encode(self, reused: ReusedQueries | None) -> int:
        """Makes the file of query vectors; returns how many training had computed."""
        self._session.reporter.stage("encode queries", len(self._rows))
        if reused is None:
            self._encode(self._rows)
            return 0
        self.queries = self.folder / _QUERIES
        out = _mapped_file(self.queries, (len(self._rows), self._session.parts.documents.dim))
        missing = np.flatnonzero(~reused.fill(out, self._rows))
        encoded = self._encode(self._rows[missing])
        for start, stop in _spans(0, len(missing)):
            out[missing[start:stop]] = encoded.rows(_QUERIES, start, stop)
        out.flush()
        return len(self._rows) - len(missing)

    def bank(self) -> VectorRef:
        """The documents for the miner; those of a trained tower are encoded first."""
        documents = self._session.parts.documents
        if documents.fixed:
            return documents.reference(self.folder)
        layout = Layout((documents.rows, documents.dim), "<f4")
        vectors = self._open("documents", "vectors.npy", layout)
        for _, block in documents.blocks(vectors.done):
            self._append("documents", vectors, block.numpy())
            self._session.link.check_stop()
        folder = self.folder / "documents"
        return VectorRef(uri=str(folder.resolve()), array="vectors", storage="npz")

    def answered(self, done: int, total: int) -> None:
        """Progress of the miner, which keeps its answers itself; raises if an end was asked for."""
        self._keeps("answers", done)
        self._session.advance(done, total)

    def positive_scores(self) -> NDArray[np.float32]:
        """Of each query, the lowest score of its known positives."""
        found = self._open("positives", _SCORES, Layout((len(self._rows),), "<f4"))
        queries = np.load(self.queries, mmap_mode="r", allow_pickle=False)
        known = self._session.data.train.known(self._rows)
        for start, stop in _spans(found.done, len(self._rows), _POSITIVES_AT_ONCE):
            scores = lowest_positive_scores(
                queries[start:stop], known[start:stop], self._session.parts.documents
            )
            self._append("positives", found, scores)
            self._session.link.check_stop()
        whole: NDArray[np.float32] = found.rows(_SCORES, 0, len(self._rows))
        return whole

    def ceilings(self, positive_scores: NDArray[np.float32]) -> str:
        """The file of scores below which candidates pass the margins."""
        layout = Layout((len(positive_scores),), "<f4")
        found = self._open("ceilings", _SCORES, layout)
        for start, stop in _spans(found.done, len(positive_scores)):
            settings = self._session.config.negatives
            self._append("ceilings", found, ceilings(positive_scores[start:stop], settings))
        return str(found.path(_SCORES))

    def remove(self) -> None:
        """It is over, or must begin anew."""
        remove_if_possible(self.folder, self._run, AREA)
        self._session.link.flight.keeps(0)

    def _encode(self, rows: NDArray[np.int64]) -> GrowingArrays:
        session = self._session
        micro_batch = session.decided.plan.micro_batch
        layout = Layout((len(rows), session.parts.documents.dim), "<f4")
        encoded = self._open("encoded", _QUERIES, layout)
        # Whole micro-batches, so that those after a death are the same.
        at_once = -(-BLOCK_ROWS // micro_batch) * micro_batch
        done, waiting = encoded.done, list[NDArray[np.float32]]()
        batches = encoded_batches(
            session.parts.model,
            session.data.train,
            rows[done:],
            session.policy,
            session.decided.precision,
            micro_batch,
        )
        for _, vectors in batches:
            waiting.append(vectors)
            done += len(vectors)
            if done - encoded.done >= at_once or done == len(rows):
                self._append("encoded", encoded, np.concatenate(waiting))
                waiting.clear()
            session.advance(done, len(rows))
        return encoded

    def _open(self, part: str, name: str, layout: Layout) -> GrowingArrays:
        found = GrowingArrays.open(self.folder / part, self._run, {name: layout}, self._key, AREA)
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


def _mapped_file(path: Path, shape: tuple[int, int]) -> np.memmap[Any, Any]:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    # The file is sparse so far; writing through a map on a full disk would be SIGBUS.
    assert out.filename is not None
    with Path(out.filename).open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, out.offset + out.nbytes)
        else:
            file.seek(out.offset)
            file.writelines(bytes(out.strides[0]) for _ in range(len(out)))
    return out
