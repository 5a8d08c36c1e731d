"""The cut of an optimizer step: where its gradients are added by shards, and where all its queries
must be there at once."""

from __future__ import annotations

from dataclasses import replace

from ttf.config.schema import RunConfig
from ttf.contracts import BatchPlan
from ttf.errors import ConfigError


def cut_at_shards(plan: BatchPlan, shards: int) -> BatchPlan:
    """No micro-batch may lie in two shards."""
    each, rest = divmod(plan.samples, shards)
    if rest or not each:
        raise ConfigError(
            f"A step of {plan.samples:,} samples cannot be cut into {shards} equal shards "
            "(train.shards).",
            hint=f"Choose --batch-size and --accum so that their product is a multiple of {shards}.",
        )
    if each % plan.micro_batch == 0:
        return plan
    size = max(n for n in range(1, min(each, plan.micro_batch) + 1) if each % n == 0)
    return replace(plan, micro_batch=size, accumulate=plan.samples // size, fused=1)


def refuse_symmetric_parts(config: RunConfig, plan: BatchPlan) -> None:
    if needs_all_queries(config, plan) and config.train.grad_cache is False:
        raise ConfigError(
            "The symmetric loss compares each document with all queries of a step, but the step "
            f"has {plan.accumulate} micro-batches, and they are not in memory at the same time.",
            hint="Remove train.grad_cache (the default is auto), or use --accum 1.",
        )


def needs_all_queries(config: RunConfig, plan: BatchPlan) -> bool:
    return config.loss.symmetric and plan.accumulate > 1
