"""What a run grants its miner."""

from __future__ import annotations

import pytest

from ttf.config.schema import RunConfig
from ttf.mining.choose import miner_context, miner_threads


@pytest.mark.parametrize(("threads", "granted"), [("auto", 6), (1, 1), (8, 8)])
def test_the_miner_has_as_many_threads_as_the_trainer_unless_it_is_told(
    threads: int | str, granted: int
) -> None:
    config = RunConfig.model_validate({"miner": {"threads": threads}})
    assert miner_threads(config.miner, 6) == granted
    assert miner_context(config, 6, 1 << 30).threads == granted


def test_seed_determinism_and_budget_are_the_runs() -> None:
    given = {
        "train": {"seed": 7},
        "miner": {"deterministic": False},
    }
    context = miner_context(RunConfig.model_validate(given), 2, 64 << 20)
    assert (context.seed, context.deterministic, context.budget_bytes) == (7, False, 64 << 20)
