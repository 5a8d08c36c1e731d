"""`ttf.process.child.inherited`: what a child finds in its environment."""

from __future__ import annotations

import pytest

from ttf.process.child import inherited


@pytest.mark.parametrize(
    ("variable", "ours"), [("MALLOC_ARENA_MAX", "2"), ("NUMPY_MADVISE_HUGEPAGE", "0")]
)
def test_a_childs_memory_is_allocated_as_ttf_says_unless_the_user_says_otherwise(
    variable: str, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    assert inherited()[variable] == ours
    monkeypatch.setenv(variable, "5")
    assert inherited()[variable] == "5"
