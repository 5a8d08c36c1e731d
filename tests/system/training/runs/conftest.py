"""The fixtures of this room."""

from tests.kit.runs.fixtures import small_sets
