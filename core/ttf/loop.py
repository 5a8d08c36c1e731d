"""The training loop: what happens in what order. Other modules do the work.

`Training` has everything the loop calls; `Events` receives what happens. A resumed run starts at
the step of its checkpoint and takes the same path.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ttf.contracts import EvalRecord, StepRecord
from ttf.data.loader import DrawNegatives, Loader
from ttf.data.order import Order
from ttf.training.step import Stepper


class Events(Protocol):
    """Events of the loop, in the order they happen."""

    def stepped(self, record: StepRecord) -> None: ...

    def evaluated(self, record: EvalRecord) -> None:
        """Raises GateNotMet."""
        ...

    def settled(self, step: int) -> None:
        """When the step is complete: the state can be saved and resumed from here. May save a
        checkpoint; raises StopAsked if the user asked for an end."""
        ...


@dataclass(kw_only=True)
class Training:
    """The state of the loop; `step` is the number of optimizer steps done."""

    step: int
    total_steps: int
    order: Order
    stepper: Stepper
    learning_rate: Callable[[int], float]
    # Returns how to draw, and the step until which that holds; mines if a refresh is due.
    negatives_from: Callable[[int], tuple[DrawNegatives | None, int]]
    load: Callable[[int, int, DrawNegatives | None], Loader]
    evaluate: Callable[[int], EvalRecord]
    evaluation_due: Callable[[int], bool]  # True if this step is to be evaluated and has not been.
    ended_early: Callable[[], bool]

    @property
    def goes_on(self) -> bool:
        return self.step < self.total_steps and not self.ended_early()


def train(run: Training, events: Events) -> None:
    """Trains from `run.step` to the end, or until an event ends it."""
    _evaluate_if_due(run, events)
    while run.goes_on:
        events.settled(run.step)
        draw, until = run.negatives_from(run.step)
        with run.load(run.step, until, draw) as loader:
            _train_window(run, events, loader)


def _train_window(run: Training, events: Events, loader: Loader) -> None:
    """The steps of one refresh window, or as many as are wanted."""
    began = time.perf_counter()
    for head, micro_batches in loader:
        lr = run.learning_rate(run.step)
        result = run.stepper(head, micro_batches, lr)
        run.step += 1
        seconds = time.perf_counter() - began
        waited = loader.take_waited_s()
        shares = {"data_s": waited, "compute_s": seconds - waited}
        events.stepped(
            StepRecord(
                step=run.step,
                epoch=run.order.epoch_of(run.step - 1),
                loss=result.loss,
                lr=lr,
                grad_norm=result.grad_norm,
                samples_per_s=len(head.rows) / seconds,
                seconds=seconds,
                extra={"mined": head.num_mined / len(head.rows), **result.extra, **shares},
            )
        )
        _evaluate_if_due(run, events)
        if not run.goes_on:
            return
        events.settled(run.step)
        began = time.perf_counter()


def _evaluate_if_due(run: Training, events: Events) -> None:
    if run.evaluation_due(run.step):
        events.evaluated(run.evaluate(run.step))
