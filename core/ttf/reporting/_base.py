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

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Fires once, after summary.json is written, however the run ended."""

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
