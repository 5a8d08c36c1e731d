"""The ready comparisons are configurations that resolve."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.config.resolve import resolve
from ttf_devices.mps import MpsOptions, MpsPolicy

EXAMPLES = Path(__file__).parents[4] / "examples" / "ab"


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("*.toml")), ids=lambda p: str(p.relative_to(EXAMPLES))
)
def test_it_resolves(path: Path) -> None:
    assert resolve(path).config.train.batch_size


def test_every_one_is_in_the_table() -> None:
    told = (EXAMPLES / "README.md").read_text()
    missing = [p.name for p in EXAMPLES.glob("*.toml") if p.name not in told]
    assert not missing


@pytest.mark.parametrize("parts", [1, 4, 16, 32])
def test_the_cuts_of_a_step_have_equal_samples_also_on_a_device_that_caps_them(parts: int) -> None:
    config = resolve(EXAMPLES / "accumulation" / f"accumulate-{parts}.toml").config
    policy = MpsPolicy(MpsOptions(**config.device.options_of("mps")), 1)
    plan = policy.plan(int(config.train.batch_size), config.train.accumulate)
    assert (plan.samples, plan.accumulate) == (1024, parts)
