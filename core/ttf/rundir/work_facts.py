"""What the manifest of a run says of its work and of the machine's speed."""

from __future__ import annotations

from typing import TypedDict


class BestProduct(TypedDict):
    gflops: float


class NotedCeilings(TypedDict):
    """The few figures of a machine's ceilings that a run keeps."""

    date: str
    best: dict[str, BestProduct]


class Work(TypedDict, total=False):
    """The minimum of training computation per sample, and the machine's ceilings."""

    tower_flops: float
    loss_flops: float
    machine: str
    ceilings: NotedCeilings | None
