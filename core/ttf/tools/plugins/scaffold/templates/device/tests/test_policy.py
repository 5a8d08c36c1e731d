"""What is particular to this device; what holds for every device is in test_conformance.py."""

from __future__ import annotations

import pytest
from ttf import ConfigError

from ttf_device_your_name._policy import YourNamePolicy
from ttf_device_your_name.plugin import Options


@pytest.mark.parametrize(
    ("max_rows", "batch", "micro_batch", "accumulate"),
    [(0, 512, 512, 3), (64, 64, 64, 3), (64, 128, 64, 6), (50, 120, 40, 9), (4, 7, 1, 21)],
)
def test_batches_above_the_limit_are_cut_into_equal_parts(
    max_rows: int, batch: int, micro_batch: int, accumulate: int
) -> None:
    plan = YourNamePolicy(Options(max_rows=max_rows), 1).plan(batch, 3)
    assert (plan.micro_batch, plan.accumulate) == (micro_batch, accumulate)
    assert plan.samples == 3 * batch
    assert bool(plan.notes) == (micro_batch != batch)


def test_bf16_can_be_switched_off() -> None:
    policy = YourNamePolicy(Options(bf16=False), 1)
    assert policy.precision("auto").name == "fp32"
    with pytest.raises(ConfigError, match="bfloat16 is disabled"):
        policy.precision("bf16")
