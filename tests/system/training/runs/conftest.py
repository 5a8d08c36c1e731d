"""The fixtures of this room."""

from tests.kit.fixtures.runs import small_sets
