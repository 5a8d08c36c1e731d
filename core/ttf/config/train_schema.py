"""The section [train]: how long, how large, with which optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ttf.config.declare import (
    MOST_FLOAT32,
    Auto,
    PathText,
    PositiveFloat,
    Samples,
    Section,
    Shards,
    ShareBelowOne,
    Steps,
    key,
    within,
)


class TrainConfig(Section):
    """Length and size of the training, and the optimizer (AdamW)."""

    epochs: Annotated[int, within(1, 1_000_000)] = key(
        8, "passes over the training pairs", unit="epochs"
    )
    steps: Steps | None = key(
        None, "stop after N optimizer steps; none: after all epochs", unit="optimizer steps"
    )
    batch_size: Samples | Auto = key(
        "auto",
        "samples per micro-batch; auto: from the memory that the tower's activations need",
        unit="samples",
    )
    accumulate: Samples = key(1, "micro-batches per optimizer step", unit="micro-batches")
    fuse: Samples | Auto = key(
        "auto",
        "micro-batches computed at a time: the same step, but rounding may differ; auto: up to the "
        "rows that the device computes fastest, within half the memory budget and 1.5 GiB",
        unit="micro-batches",
    )
    shards: Shards = key(
        1,
        "parts of a step whose gradients are added in a fixed order, a power of two: with as many "
        "or fewer processes the results are bitwise the same; 1: as one process computes, until the "
        "run is started with several",
        unit="shards",
    )
    lr: PositiveFloat = key(1e-3, "learning rate after the warm-up", unit="no unit")
    schedule: Literal["cosine", "linear", "constant"] = key(
        "cosine", "how the learning rate falls after the warm-up"
    )
    warmup: ShareBelowOne = key(
        0.05, "share of all steps in which the learning rate rises", unit="share of all steps"
    )
    weight_decay: Annotated[float, within(0, 1000)] = key(
        0.01, "decoupled weight decay of AdamW", unit="no unit"
    )
    clip: Annotated[float, within(0, MOST_FLOAT32)] = key(
        1.0, "largest norm of the gradient; 0: no clipping", unit="gradient norm"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = key(
        0, "seed of the weights, the order of rows and the drawn negatives", unit="no unit"
    )
    shuffle: bool = key(
        True,
        "true: rows in a random order, a new one in each epoch; false: in the order of the file",
    )
    grad_cache: bool | Auto = key(
        "auto",
        "compute one large batch in chunks, each encoded twice; auto: if accumulation needs it",
    )
    init: PathText | None = key(
        None, "safetensors file with the initial weights; none: random weights"
    )
