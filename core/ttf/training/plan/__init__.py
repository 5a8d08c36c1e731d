"""What a run would take, before it starts: memory, disk and time, predicted per component."""

from __future__ import annotations

from ttf.training.plan._model import FUSED_BYTES, ArrayFacts, Choices, DataFacts, Item, Plan
from ttf.training.plan._predict import (
    BACKWARD,
    ENTRY_BYTES,
    FLOAT,
    LEAST_BATCH,
    OPTIMIZER_BYTES,
    auto_batch_size,
    make_plan,
    plan_of,
    read_ahead,
)

__all__ = [
    "BACKWARD",
    "ENTRY_BYTES",
    "FLOAT",
    "FUSED_BYTES",
    "LEAST_BATCH",
    "OPTIMIZER_BYTES",
    "ArrayFacts",
    "Choices",
    "DataFacts",
    "Item",
    "Plan",
    "auto_batch_size",
    "make_plan",
    "plan_of",
    "read_ahead",
]
