"""What `loss.negatives = "bank"` means for the other settings of a run."""

from __future__ import annotations

from typing import Any

from ttf.config.resolve import Resolved
from ttf.contracts import BatchPlan, TowerCost
from ttf.errors import ConfigError
from ttf.training.plan import BACKWARD

WHY = 'every document is a negative already (loss.negatives = "bank")'
Values = dict[tuple[str, str], tuple[Any, str]]


def required(resolved: Resolved, doc: TowerCost) -> tuple[Values, tuple[str, ...]]:
    """Settings that follow, with their reasons, and what to tell of those that were asked for."""
    config, origins = resolved.config, resolved.origins
    if config.loss.negatives != "bank":
        return {}, ()
    if doc.parameters:
        raise ConfigError(
            f"The whole bank can only be the negatives of a step (loss.negatives = "
            f'"bank") where documents do not train, but the document tower '
            f"{config.tower.doc.name!r} does: all its vectors would change at every step.",
            hint='Use --doc-tower identity, or loss.negatives = "sampled".',
        )
    if config.loss.symmetric:
        raise ConfigError(
            'The symmetric loss (loss.symmetric) and loss.negatives = "bank" exclude each '
            "other: most documents of the bank have no query that they could be compared with.",
            hint="Leave out one of them.",
        )
    values: Values = {}
    notes = []
    for section, name in (("miner", "negatives"), ("loss", "memory_bank")):
        asked = getattr(getattr(config, section), name)
        if asked == 0:
            continue
        key = f"{section}.{name}"
        values[section, name] = (0, WHY)
        if asked != "auto" and origins[key] != "default":
            notes.append(f"{key} = {asked} ({origins[key]}) is not used: {WHY}.")
    return values, tuple(notes)


def grad_cache(plan: BatchPlan, query: TowerCost, budget_bytes: int) -> tuple[bool, str]:
    """The pass over the bank wants all queries of a step at once: their graphs are kept where half
    the budget holds them, else computed twice."""
    if plan.accumulate == 1:
        return False, "not needed"
    held = BACKWARD * query.activation_bytes * plan.samples
    needs = f"the graphs of all {plan.samples:,} samples of a step take {held / 2**20:,.0f} MiB"
    if held <= budget_bytes // 2:
        return False, f"{needs} and are kept for one pass over the bank"
    return True, f"{needs}, more than half of memory.budget: queries are encoded twice"
