"""Values that ttf chose from a machine, where the machines of a run differ: those of rank 0 count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ttf.config.resolve import Resolved, flat, with_value
from ttf.training.auto_device_options import SETTLED
from ttf.world.world import World

# What one process uses of its own machine; where it matters, the compared bits show it.
OF_A_HOST = ("device.", "memory.", "miner.threads")


def as_rank_0_settled(
    asked: Resolved, settled: Resolved, world: World, beat: Callable[[], None]
) -> Resolved | None:
    """`asked`, with the values of rank 0 for what was left to ttf; None if nothing differs."""
    if world.size == 1:
        return None
    own = _chosen(settled)
    theirs = world.tell("what ttf chose", own, beat)[0]
    found = asked
    for key, value in own.items():
        if key in theirs and theirs[key] != value:
            chosen: Any = json.loads(theirs[key])
            found = with_value(found, key, chosen, f"{SETTLED}as rank 0 chose")
    return None if found is asked else found


def _chosen(settled: Resolved) -> dict[str, str]:
    """Keys with two parts: those of ttf itself, not of plugins."""
    return {
        key: json.dumps(value)
        for key, value in flat(settled.config).items()
        if key.count(".") == 1
        and not key.startswith(OF_A_HOST)
        and settled.origins.get(key, "").startswith(SETTLED)
    }
