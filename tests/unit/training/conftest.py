"""The fixtures of this room."""

from tests.kit.training.fixtures import _one_thread
