"""Keeps the folder `model/` of a run up to date, so that a run that never finishes leaves a model.

It holds the weights that the run would end with now: those of the best evaluation. Until trained
weights were evaluated it holds those of the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ttf.errors import StorageError
from ttf.rundir.flight_record import Phase
from ttf.training.best_weights import Selection
from ttf.training.session import Session
from ttf.training.towers import save_model


class ModelKeeper:
    """Call it from the main thread, between two steps."""

    def __init__(self, session: Session, selection: Selection) -> None:
        self._session = session
        self._selection = selection
        self._kept_step: int | None = None  # Of the weights that this process wrote.

    def evaluated(self) -> None:
        """After every evaluation that the selection has seen."""
        if self._selection.last_step > 0 and self._selection.final_step != self._kept_step:
            self._write_if_possible(self._selection.final_step, self._selection.final)

    def saved(self, step: int) -> None:
        """After every checkpoint: its weights are the model until trained ones were evaluated."""
        if step > 0 and self._selection.last_step <= 0:
            self._write_if_possible(step, {})

    def finish(self) -> None:
        """Writes the model that the run ends with. Raises StorageError."""
        if self._selection.final_step != self._kept_step:
            self._write(self._selection.final_step, self._selection.final)

    def _write_if_possible(self, step: int, metrics: Mapping[str, float]) -> None:
        # The disk decides about a run at its checkpoints, which are tried again for a while.
        try:
            self._write(step, metrics)
        except StorageError as error:
            self._session.reporter.note(f"{error} ttf writes the file again later.")

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        session = self._session
        session.link.flight.enter(Phase.CHECKPOINT)
        specs = session.decided.specs
        save_model(
            session.folder.model,
            self._weights(),
            specs.query,
            specs.doc,
            session.config.loss,
            step=step,
            metrics=metrics,
        )
        self._kept_step = step

    def _weights(self) -> Mapping[str, Tensor]:
        now: Mapping[str, Tensor] = self._session.parts.model.state_dict()
        best = self._selection.weights if self._selection.last_step > 0 else {}
        return {name: best.get(name, tensor) for name, tensor in now.items()}
