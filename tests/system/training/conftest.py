"""The fixtures of this room."""

from tests.kit.fixtures.training import _one_thread
