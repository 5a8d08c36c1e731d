"""How much a loader costs: the same steps from it and from memory, in turns ("headspace").

A loader that is never waited for, and takes nothing from the cores that compute, makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ttf.data.loader import MicroBatch, StepHead
from ttf.tools.bench.paired import Ratio, in_turns, ratio

Step = Callable[[StepHead, Iterator[MicroBatch]], object]


@dataclass(frozen=True, kw_only=True)
class Headspace:
    """Seconds of turns with the loader and with cached batches, and their paired ratio."""

    loader_s: list[float]
    cached_s: list[float]
    ratio: Ratio

    @property
    def stall(self) -> float:
        """The share of the time that a perfect loader would save, by the median of pairs."""
        return 1 - 1 / self.ratio.median

    def __str__(self) -> str:
        low, high = 1 - 1 / self.ratio.low, 1 - 1 / self.ratio.high
        return f"{self.stall:.2%} ({low:.2%} to {high:.2%}, n = {self.ratio.repeats})"


def headspace(
    step: Step,
    steps: Iterator[tuple[StepHead, Iterator[MicroBatch]]],
    *,
    steps_a_turn: int,
    repeats: int,
    cached: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Headspace:
    """Trains with `step` on what `steps` (a Loader) yields and, in turns, on `cached` steps of it
    again and again.

    The loader reads ahead while the other arm has its turn, as far as its queue goes; it begins and
    ends each of its own turns with that queue full, so every turn has as many gathers as batches.
    """
    kept = [(head, list(micro_batches)) for head, micro_batches in _first(steps, cached)]
    place = 0

    def from_loader() -> None:
        for head, micro_batches in _first(steps, steps_a_turn):
            step(head, micro_batches)

    def from_memory() -> None:
        nonlocal place
        for _ in range(steps_a_turn):
            head, micro_batches = kept[place % len(kept)]
            place += 1
            step(head, iter(micro_batches))

    seconds = in_turns(
        {"loader": from_loader, "cached": from_memory}, repeats, warm=2, progress=progress
    )
    return Headspace(
        loader_s=seconds["loader"],
        cached_s=seconds["cached"],
        ratio=ratio(seconds["loader"], seconds["cached"]),
    )


def _first(
    steps: Iterator[tuple[StepHead, Iterator[MicroBatch]]], count: int
) -> Iterator[tuple[StepHead, Iterator[MicroBatch]]]:
    """The next few; ValueError where there are fewer."""
    for _ in range(count):
        try:
            yield next(steps)
        except StopIteration:
            raise ValueError("the loader has too few steps to measure") from None
