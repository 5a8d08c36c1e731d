"""What a run grants its miner: threads, seed, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttf.contracts import MinerContext
from ttf.machine.memory import budget_bytes as memory_budget

if TYPE_CHECKING:
    from ttf.config.schema import MinerConfig, RunConfig


def miner_threads(miner: MinerConfig, trainer_threads: int) -> int:
    """`miner.threads`; "auto" is as many as the trainer has."""
    return trainer_threads if isinstance(miner.threads, str) else miner.threads


def miner_context(config: RunConfig, trainer_threads: int) -> MinerContext:
    """For every place that mines for a run, or estimates what that takes."""
    return MinerContext(
        threads=miner_threads(config.miner, trainer_threads),
        seed=config.train.seed,
        deterministic=config.miner.deterministic,
        budget_bytes=memory_budget(config.memory.budget),
    )
