"""The fixtures of this room."""

from tests.kit.fixtures.observers import _closed_after, _needs_tensorboard
