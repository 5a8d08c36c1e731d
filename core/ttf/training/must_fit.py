"""Refuses a run that certainly cannot fit, by arithmetic, before it takes memory or disk.

Only what every run with this configuration needs is counted: a run that passes may still be too
large (`ttf train --plan` predicts the whole), but one that is refused could not have begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttf.data.dataset import Dataset
from ttf.errors import ConfigError
from ttf.machine.memory.limits import Limit
from ttf.text.numbers import size
from ttf.training.auto_settings import Decided
from ttf.training.plan import ENTRY_BYTES, FLOAT, OPTIMIZER_BYTES

_ID_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Need:
    """A part of a run and the bytes that it takes at least."""

    what: str
    bytes: int
    why: str
    lower: str


def refuse_what_cannot_fit(
    decided: Decided,
    data: Dataset,
    *,
    memory: Limit,
    disk: Limit,
) -> None:
    """Raises ConfigError. `disk`: what is free where the run's folder lies."""
    _refuse("memory", list(_memory(decided, data)), memory)
    _refuse("disk space", list(_disk(decided, data)), disk)


def _refuse(resource: str, needs: Sequence[Need], limit: Limit) -> None:
    least = sum(need.bytes for need in needs)
    if least <= limit.bytes:
        return
    largest = sorted(needs, key=lambda need: -need.bytes)
    raise ConfigError(
        f"This run cannot fit: it needs at least {size(least)} of {resource}, but there are only "
        f"{size(limit.bytes)} ({limit.source}).",
        problems=[
            f"{need.what}: {size(need.bytes)} ({need.why}). Lower {need.lower}."
            for need in largest
            if need.bytes * 20 > least
        ],
        hint="To see the prediction of each part, add --plan to the same command.",
    )


def _memory(decided: Decided, data: Dataset) -> Iterator[Need]:
    config, plan = decided.config, decided.plan
    width = data.bank.shape[1]
    for side, spec in (("query", decided.specs.query), ("doc", decided.specs.doc)):
        parameters = spec.cost().parameters
        yield Need(
            what=f"the {side} tower {spec.name} and its optimizer",
            bytes=parameters * OPTIMIZER_BYTES,
            why=f"{parameters:,} weights x {OPTIMIZER_BYTES} B",
            lower=f"the sizes in tower.{side}: ttf config explain tower.{spec.name}",
        )
    capacity = config.loss.memory_bank
    assert isinstance(capacity, int)
    row = width * FLOAT
    yield Need(
        what="the memory bank",
        bytes=capacity * (row + _ID_BYTES),
        why=f"{capacity:,} documents x ({width} x {FLOAT} B + {_ID_BYTES} B)",
        lower=f"loss.memory_bank; the training pairs have {data.distinct_documents:,} documents",
    )
    negatives = config.miner.num_negatives + data.train.num_own
    documents = plan.samples * (1 + negatives)
    yield Need(
        what="the documents of a step",
        bytes=documents * (row + _ID_BYTES),
        why=f"{plan.samples:,} samples x (1 + {negatives:,} negatives) x {row} B",
        lower="miner.negatives, data.own_negatives, or the samples of a step (train.batch_size, train.accumulate)",
    )
    shape = decided.specs.query.shape
    values = plan.micro_batch * shape.length * shape.in_dim
    yield Need(
        what="the queries of a micro-batch",
        bytes=values * FLOAT,
        why=f"{plan.micro_batch:,} x {shape.length:,} x {shape.in_dim:,} x {FLOAT} B",
        lower="train.batch_size",
    )


def _disk(decided: Decided, data: Dataset) -> Iterator[Need]:
    miner = decided.config.miner
    if not decided.mined_steps:
        return
    queries = min(len(data.train), decided.mined_steps * decided.plan.samples)
    k = min(miner.num_candidates, data.bank.shape[0])
    yield Need(
        what="the table of mined candidates",
        bytes=queries * k * ENTRY_BYTES,
        why=f"{queries:,} queries x {k:,} candidates x {ENTRY_BYTES} B",
        lower="miner.k, or mine more often (a lower miner.refresh)",
    )
