"""Sections about judging a model: its evaluations, and the correction for hubs after training."""

from __future__ import annotations

from typing import Annotated, Literal

from ttf.config.declare import MOST_ROWS, Auto, Name, Section, Steps, key, within


class EvaluateConfig(Section):
    """When the towers are evaluated, and which weights are kept."""

    every: Literal["epoch", "end"] | Steps | Auto = key(
        "auto",
        "how often: each epoch, every N optimizer steps, or only at the end; auto: each epoch, or "
        "less often if all evaluations would take more than 15% of the work of the training",
        unit="optimizer steps",
    )
    k: tuple[Annotated[int, within(1, MOST_ROWS)], ...] = key(
        (1, 10, 100, 500),
        "numbers k for which recall@k is computed",
        unit="documents",
        max_length=32,
    )
    metric: Name = key("recall@10", "the metric that decides which weights are the best")
    patience: Annotated[int, within(0, 1_000_000)] | Auto = key(
        "auto",
        "stop after N evaluations without improvement; 0: never; auto: a third of the run's "
        "evaluations, at least 3; never if there are gates or the last weights are kept",
        unit="evaluations",
    )
    keep_best: bool = key(
        True, "true: end with the weights of the best evaluation; false: with the last weights"
    )
    above_chance: bool = key(
        True,
        "true: a run of at least one epoch ends with exit code 7 if its model ranks no better "
        "than chance, before and after training; the model is kept",
    )


class CalibrateConfig(Section):
    """The correction for hubs: documents that are near to queries of all kinds are ranked lower."""

    enabled: bool | Auto = key(
        "auto",
        "after training, lower each document's score by `a` times its mean similarity to its "
        "nearest training queries; held-out training pairs choose `a`, and without evidence of a "
        "gain nothing is changed; auto: from 1000 training pairs on; true: with any number",
    )
    neighbours: Annotated[int, within(1, 1000)] = key(
        30, "nearest training queries that a document is compared with", unit="queries"
    )
    sample: Annotated[int, within(1, 1_000_000)] | Auto = key(
        "auto",
        "training queries among which they are looked for, at most; auto: as many as make 2.5 "
        "billion comparisons with the documents of the bank, at least 20000",
        unit="queries",
    )
