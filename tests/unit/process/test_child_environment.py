"""`ttf.process.child.inherited`: what a child finds in its environment."""

from __future__ import annotations

import pytest

from ttf.process.child import inherited


def test_a_child_has_two_arenas_for_malloc_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert inherited()["MALLOC_ARENA_MAX"] == "2"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "5")
    assert inherited()["MALLOC_ARENA_MAX"] == "5"
