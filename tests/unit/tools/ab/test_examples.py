"""The ready comparisons are configurations that resolve."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.config.resolve import resolve

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
