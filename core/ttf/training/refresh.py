"""When candidates are mined again (miner.refresh = "auto"): by how hard the old negatives still are.

After each round, a sample of training queries is compared with two sets of documents: what may be
drawn from the new table, and what could be drawn from the table before it, both scored by the
current towers. While the old ones keep nearly all of their weight in the loss, a table serves twice
as many epochs as the one before it, at most four; once they have lost much of it, one epoch. The
sample's documents are part of every checkpoint, so a resumed run decides as the killed one did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.order import sampled_rows
from ttf.errors import ArtifactDamaged
from ttf.mining.miner_results import CandidateTable
from ttf.mining.negatives import drawable
from ttf.training.checkpoint import Refresh, Totals
from ttf.training.encoded_queries import encode_split
from ttf.training.schedule import Window
from ttf.training.session import Session

SAMPLE: Final = 256
MOST_EPOCHS: Final = 4
# Of the weight in the loss that new negatives have, what the old ones keep: docs/decisions/0026.
STILL_HARD: Final = 0.9
NO_LONGER_HARD: Final = 0.75


class Refreshes:
    """Decides how many epochs a table serves; the decision is in `Totals.refresh`."""

    def __init__(self, session: Session, totals: Totals) -> None:
        self._session = session
        self._totals = totals
        self.figures: dict[str, Any] = {}  # Of the last decision, for metrics.jsonl.
        data = session.data.train
        count = min(SAMPLE, len(data))
        self._rows = sampled_rows(len(data), count, session.config.train.seed, "refresh")

    def window_of(self, step: int, epoch: Window) -> Window:
        """The decided window of a step; `epoch`: that of its epoch alone."""
        found = self._totals.refresh
        stop = min(found.stop, self._session.decided.total_steps)
        return (
            Window(start=found.start, stop=stop, mined=True)
            if found.start <= step < stop
            else epoch
        )

    def latest_stop(self, epoch: Window) -> int:
        """The last step that a table mined at the start of this window may serve."""
        return self._stop(epoch, MOST_EPOCHS)

    def decide(self, epoch: Window, table: CandidateTable) -> Window:
        """Decides what the new table serves, and says so."""
        before = self._totals.refresh
        new = _documents(table, self._rows, self._session)
        epochs, self.figures, why = 1, {}, "it is the first, and nothing is known yet"
        if before.sample:
            self.figures = self._compare(before.sample, new)
            epochs = next_epochs(before.epochs, self.figures["old_weight"])
            why = (
                f"the negatives of the table before still have {self.figures['old_weight']:.0%} of "
                f"the weight of the new ones ({self.figures['changed']:.0%} of them are others)"
            )
        window = Window(start=epoch.start, stop=self._stop(epoch, epochs), mined=True)
        self.figures["serves_epochs"] = epochs
        self._totals.refresh = Refresh(
            start=window.start, stop=window.stop, epochs=epochs, sample=new
        )
        if window.stop < self._session.decided.total_steps:
            self._session.reporter.note(
                f"The mined candidates of step {window.start:,} are used for {epochs} "
                f"epoch{'s' * (epochs > 1)}, because {why}."
            )
        return window

    def _stop(self, epoch: Window, epochs: int) -> int:
        decided = self._session.decided
        return min(epoch.stop + (epochs - 1) * decided.order.steps_per_epoch, decided.total_steps)

    def _compare(self, old: list[list[int]], new: list[list[int]]) -> dict[str, Any]:
        session = self._session
        documents = {row for rows in old for row in rows}
        known = range(session.parts.documents.rows)
        if len(old) != len(new) or any(row not in known for row in documents):
            raise ArtifactDamaged(
                "The checkpoint compares mined negatives with documents that the bank does not have.",
                hint="Its files were changed after the run wrote them. Start a new run from the "
                "folder's run.toml.",
            )
        vectors = torch.from_numpy(
            encode_split(
                session.parts.model,
                session.data.train,
                self._rows,
                session.policy,
                session.decided.precision,
                session.decided.plan.micro_batch,
            )
        )
        scores = np.array(list(self._mean_scores(vectors, old, new)))
        with torch.no_grad():
            scale = float(session.parts.model.temperature.scale())
        gap = float((scores[:, 1] - scores[:, 0]).mean()) if len(scores) else 0.0
        pairs = [(set(a), set(b)) for a, b in zip(old, new, strict=True) if a and b]
        changed = [len(b - a) / len(b) for a, b in pairs]
        return {
            "changed": float(np.mean(changed)) if changed else 0.0,
            "old_weight": float(np.exp(-max(0.0, gap) * scale)),
        }

    def _mean_scores(
        self, vectors: torch.Tensor, old: list[list[int]], new: list[list[int]]
    ) -> Iterator[tuple[float, float]]:
        """Of the old and the new negatives of each query that has both."""
        documents = self._session.parts.documents
        for query, before, now in zip(vectors, old, new, strict=True):
            if before and now:
                found = documents.vectors(np.array([*before, *now], np.int64)) @ query
                yield float(found[: len(before)].mean()), float(found[len(before) :].mean())


def next_epochs(before: int, old_weight: float) -> int:
    """How many epochs a table serves, after one that served `before`.

    >>> [next_epochs(before, w) for before, w in ((1, 0.95), (4, 0.95), (2, 0.8), (4, 0.5))]
    [2, 4, 2, 1]
    """
    if old_weight >= STILL_HARD:
        return min(2 * before, MOST_EPOCHS)
    return before if old_weight >= NO_LONGER_HARD else 1


def _documents(table: CandidateTable, rows: NDArray[np.int64], session: Session) -> list[list[int]]:
    known = session.data.train.known(rows)
    found = drawable(table, rows, known, session.config.negatives)
    return [[int(i) for i in ids if i >= 0] for ids in found]
