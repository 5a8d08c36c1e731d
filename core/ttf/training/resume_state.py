"""Everything a run needs to go on where it stopped, listed once, saved and restored here."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field

import numpy as np
import torch

from ttf.rundir.request import History
from ttf.training import checkpoint
from ttf.training.best_weights import Selection
from ttf.training.build import Parts
from ttf.training.refresh import Refresher


@dataclass(kw_only=True)
class Totals:
    """Sums over all processes of a run."""

    wall_s: float = 0.0
    train_s: float = 0.0
    peak_bytes: int = 0
    miner: str = ""
    """The one that mined last; empty while nothing was mined."""
    deviations: list[str] = field(default_factory=list)
    """What made the numbers differ from those of an undisturbed run."""


class RunState:
    """The mutable state of a run beside the data: it follows from the configuration and this."""

    def __init__(self, parts: Parts, refresher: Refresher, selection: Selection) -> None:
        self._parts, self._refresher, self.selection = parts, refresher, selection
        self.totals = Totals()
        self._clock = time.monotonic()

    def continue_clock(self, history: History | None) -> None:
        """The wall clock of a supervised run counts its dead processes as well; whoever continues
        alone knows only those that saved."""
        if history is not None:
            self.totals.wall_s = history.wall_s
            self._clock = history.started_at

    def tick(self) -> float:
        """Brings the wall clock of the totals up to now, and returns it."""
        now = time.monotonic()
        self.totals.wall_s += now - self._clock
        self._clock = now
        return self.totals.wall_s

    def snapshot(self, step: int) -> checkpoint.Snapshot:
        """Refers to the run's own tensors: save it before the next step, or `copied`."""
        self.tick()
        bank = self._parts.bank
        tensors = {"ids": torch.from_numpy(bank.ids[: bank.filled].copy())}
        if not self._parts.documents.fixed:
            tensors["vectors"] = bank.vectors()
        return checkpoint.Snapshot(
            step=step,
            model=self._parts.model.state_dict(),
            optimizer=checkpoint.optimizer_tensors(self._parts.stepper.optimizer),
            bank=tensors,
            best=self.selection.weights,
            progress={
                "table": self._refresher.table_for(step),
                "bank_position": bank.position,
                "selection": self.selection.to_json(),
                "totals": asdict(self.totals),
            },
        )

    def restore(self, snapshot: checkpoint.Snapshot) -> None:
        parts, progress = self._parts, snapshot.progress
        parts.model.load_state_dict(snapshot.model)
        checkpoint.restore_optimizer(parts.stepper.optimizer, snapshot.optimizer)
        ids = snapshot.bank["ids"].numpy().astype(np.int64)
        vectors = snapshot.bank.get("vectors")
        if vectors is None:  # fixed documents: the vectors follow from the ids
            vectors = torch.from_numpy(parts.documents.read(ids))
        parts.bank.restore(ids, progress["bank_position"], vectors)
        self._refresher.resume(progress["table"])
        self.selection.restore(progress["selection"], snapshot.best)
        self.totals = Totals(**progress["totals"])
