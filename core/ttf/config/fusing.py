"""What is said where micro-batches are computed together, to somebody who wants them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttf.contracts import BatchPlan


def fusing(batch: BatchPlan) -> str:
    """For a crash of accumulation: how much of it is left, and how to have all of it; "" if each
    micro-batch is computed alone."""
    if batch.fused == 1:
        return ""
    left = (
        "nothing is accumulated"
        if batch.accumulate == 1
        else f"only {batch.accumulate} are accumulated"
    )
    return (
        f"train.fuse computes {batch.fused} micro-batches of {batch.micro_batch // batch.fused} as "
        f"one of {batch.micro_batch}, so {left}. The step is the same. To reproduce a crash of "
        "accumulation: --set train.fuse=1"
    )


def fusing_of(flat: Mapping[str, Any]) -> str:
    """The same for values by dotted key; "" if they are not settled yet."""
    micro, accumulate, fuse = (flat[f"train.{k}"] for k in ("batch_size", "accumulate", "fuse"))
    if not isinstance(micro, int) or not isinstance(fuse, int):
        return ""
    return fusing(BatchPlan(micro_batch=micro * fuse, accumulate=accumulate // fuse, fused=fuse))
