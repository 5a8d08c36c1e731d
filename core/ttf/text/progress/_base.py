"""The reporter that says nothing: every event a run has, and when it fires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord


class Reporter:
    """All methods do nothing; a reporter overrides what it shows. Called from one thread.

    Use it as a context manager, or call `close`: whatever is on the screen is then left whole.
    """

    def watch_memory(self, held_bytes: Callable[[], int]) -> None:
        """Fires once, when the memory sampler runs; the callable costs nothing and may be asked
        for the memory held now at every update."""

    def chosen_by(self, metric: str) -> None:
        """Fires once, before the first evaluation: what the best weights are chosen by."""

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        """Fires once where a run is continued: the step it goes on from, and the metrics before
        its training, which later evaluations are compared with."""

    def stage(self, name: str, total: int | None) -> None:
        """Fires when a phase with a beginning and an end starts ("open data", "mine", "train",
        "evaluate"), and ends the one before; `total` is what `advance` counts to, if known."""

    def advance(self, done: int, total: int) -> None:
        """Fires within a stage as often as is cheap, with what is done so far. It has the shape
        of `ttf.contracts.Progress`, so that it can be handed to whatever reports progress."""

    def note(self, text: str) -> None:
        """Fires for something the user must hear: a cap, a fallback, rows that were left out."""

    def step(self, record: StepRecord, total_steps: int) -> None:
        """Fires after every optimizer step; must return within microseconds. Ends whatever stage
        was on: steps are the stage "train", announced or not."""

    def evaluated(self, record: EvalRecord) -> None:
        """Fires after every evaluation, the one before training included."""

    def stopping(self, why: str) -> None:
        """Fires when the run was asked to stop and is about to save, with the signal's name."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Fires once, after summary.json is written, for a run that went to its end; `run_dir`
        stands in the summary as well. The caller shows the summary; this ends the display."""

    def close(self) -> None:
        """Fires when nothing more will be reported, also after an exception; may fire twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
