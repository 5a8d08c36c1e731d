"""h(d): the mean of a document's largest similarities to sampled training queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress
from ttf.mining.scan.mean_of_best import LeftOut, MeanOfBest
from ttf.training.calibration.work import Work
from ttf.training.documents import Documents
from ttf.training.team import ALONE, Team

# Bank rows from..to -> for each pair of a row among them and a query that does not count for it:
# the row counted from the first, ascending, and the query.
OwnQueries = Callable[[NDArray[np.int64]], LeftOut]


class Hubness:
    """Of one bank; `own` tells which queries a document's value leaves out."""

    chunk_rows = 32_768  # That are lost at most when a calibration is killed.

    def __init__(
        self,
        documents: Documents,
        queries: NDArray[np.float32],
        own: OwnQueries,
        neighbours: int,
        threads: int,
    ) -> None:
        self.documents = documents
        self._own = own
        self._mean = MeanOfBest(queries, neighbours, threads)

    def of(self, ids: NDArray[np.int64], vectors_ND: torch.Tensor) -> NDArray[np.float32]:
        """Of some documents with their vectors."""
        return self._mean.of(vectors_ND.numpy(), self._own(ids))

    def of_some(self, ids: NDArray[np.int64], progress: Progress) -> NDArray[np.float32]:
        out = np.empty(len(ids), np.float32)
        for start in range(0, len(ids), self.documents.block_rows):
            here = ids[start : start + self.documents.block_rows]
            out[start : start + len(here)] = self.of(here, self.documents.vectors(here))
            progress(start + len(here), len(ids))
        return out

    def of_bank(
        self,
        work: Work,
        known_ids: NDArray[np.int64],
        known: NDArray[np.float32],
        progress: Progress,
        team: Team = ALONE,
    ) -> NDArray[np.float32]:
        """Of every document; those of `known_ids` (ascending) are not computed again."""
        rows = self.documents.rows

        def of_part(part: range) -> NDArray[np.float32]:
            first, last = np.searchsorted(known_ids, (part.start, part.stop))
            out = np.full(len(part), np.nan, np.float32)
            out[known_ids[first:last] - part.start] = known[first:last]
            self._of_part(work, part, out, progress)
            return out

        return team.whole("hubness", rows, self.documents.block_rows, of_part)

    def _of_part(
        self, work: Work, part: range, out: NDArray[np.float32], progress: Progress
    ) -> None:
        begin = self._resumed(work, part, out)
        for start, block_ND in self.documents.blocks(begin, part.stop):
            stop = start + len(block_ND)
            missing = np.flatnonzero(np.isnan(out[start - part.start : stop - part.start]))
            if len(missing):
                found = self.of(start + missing, block_ND[torch.from_numpy(missing)])
                out[start - part.start + missing] = found
            progress(stop, self.documents.rows)
            if stop - begin >= self.chunk_rows or stop == part.stop:
                work.put(_part(begin), out[begin - part.start : stop - part.start])
                begin = stop

    def _resumed(self, work: Work, part: range, out: NDArray[np.float32]) -> int:
        """Reads finished chunks into `out`; returns the first row that is missing."""
        begin, rows, block = part.start, self.documents.rows, self.documents.block_rows
        while begin < part.stop and (found := work.get(_part(begin))) is not None:
            whole = begin + len(found) == rows or len(found) % block == 0
            if (
                found.dtype != np.float32
                or not whole
                or begin + len(found) > rows
                or not len(found)
            ):
                break
            stop = min(begin + len(found), part.stop)  # of another cut
            out[begin - part.start : stop - part.start] = found[: stop - begin]
            begin = stop
        return begin


def _part(begin: int) -> str:
    return f"documents-{begin:012d}"


def by_positive(positives_QP: NDArray[np.int64], num_documents: int) -> OwnQueries:
    """Leaves out the queries whose positives (bank rows, -1 for none) hold the document."""
    query_E, column_E = np.nonzero(positives_QP >= 0)
    return by_pairs(query_E, positives_QP[query_E, column_E], num_documents)


def by_pairs(
    query_E: NDArray[np.int64], document_E: NDArray[np.int64], num_documents: int
) -> OwnQueries:
    order = np.argsort(document_E, kind="stable")
    document_E, query_E = document_E[order], query_E[order]
    begins = np.searchsorted(document_E, np.arange(num_documents + 1))

    def own(ids: NDArray[np.int64]) -> LeftOut:
        counts = begins[ids + 1] - begins[ids]
        vectors = np.repeat(np.arange(len(ids)), counts)
        within = np.arange(len(vectors)) - np.repeat(np.cumsum(counts) - counts, counts)
        return LeftOut(vectors=vectors, rows=query_E[begins[ids][vectors] + within])

    return own
