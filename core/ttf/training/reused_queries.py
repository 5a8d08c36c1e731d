"""The queries of a mining round from the vectors that training computed (miner.queries = "reuse").

Those of the last epoch's steps, each as its step computed it: with dropout, and up to an epoch old.
What training has not computed (the first round; rows that the last epoch left out) is encoded. What
is lost is encoded too, and the run says that its numbers differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.errors import StorageError
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.verified_folders import newest_first, step_of
from ttf.training.checkpoint import Totals
from ttf.training.session import Session
from ttf.training.trained_queries import Record, TrainedQueries


class ReusedQueries:
    """Keeps the vectors of steps, and fills the queries of a round from them; main thread only."""

    def __init__(self, session: Session, totals: Totals) -> None:
        self._session = session
        self._totals = totals
        folder = session.folder
        self.kept = TrainedQueries(
            folder.candidates, folder.path, session.decided.order, session.parts.documents.dim
        )
        self._step = 0

    def keep(self, step: int, queries_SD: torch.Tensor) -> None:
        """If the disk takes nothing, waits for it; a run without saved progress fails instead."""
        session = self._session
        retry = StorageRetry(
            session.config.checkpoint.retry_s if step else 0.0,
            say=session.reporter.note,
            check_stop=session.link.check_stop,
            title=f"THE QUERY VECTORS OF STEP {step} CANNOT BE WRITTEN",
        )
        vectors = queries_SD.float().cpu().numpy()
        while True:
            try:
                return self.kept.write(step, vectors)
            except StorageError as error:
                retry.wait_or_raise(error)

    def look(self, step: int) -> bytes:
        """Checks what a round at this step can use, and returns a hash of it."""
        self._step = step
        found = [(r.step, r.checksum, r.vectors_SD is None) for r in self.kept.before(step)]
        lost = sum(missing for _, _, missing in found)
        if lost:
            text = (
                f"the query vectors of {lost} of the {len(found)} steps before step {step} were "
                "lost, and these queries were encoded for mining"
            )
            if text not in self._totals.deviations:
                self._totals.deviations.append(text)
                self._session.reporter.note(f"{text[0].upper()}{text[1:]}.")
        return repr(found).encode()

    def fill(
        self, out: NDArray[np.float32], rows: NDArray[np.int64], held: range
    ) -> NDArray[np.bool_]:
        """Returns for which of `rows` (ascending) training computed a vector; fills `out`, one
        vector for each of the `held` among them."""
        there = np.zeros(len(rows), dtype=np.bool_)
        for record, step_rows in self._usable():
            at = np.minimum(np.searchsorted(rows, step_rows), len(rows) - 1)
            wanted = rows[at] == step_rows
            there[at[wanted]] = True
            wanted &= (at >= held.start) & (at < held.stop)
            out[at[wanted] - held.start] = record[wanted]
        return there

    def remove_unneeded(self) -> None:
        """What no checkpoint of the run needs. Raises StorageError."""
        saved = newest_first(self._session.folder.checkpoints)
        if saved:
            self.kept.remove_unneeded(step_of(saved[-1]))

    def _usable(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        order = self._session.decided.order
        record: Record
        for record in self.kept.before(self._step):
            if record.vectors_SD is not None:
                yield record.vectors_SD, order.rows(record.step)
