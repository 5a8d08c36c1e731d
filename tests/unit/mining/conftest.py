"""The fixtures of this room."""

from tests.kit.fixtures.mining import job
