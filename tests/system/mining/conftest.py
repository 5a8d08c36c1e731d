"""The fixtures of this room."""

from tests.kit.mining.fixtures import job
