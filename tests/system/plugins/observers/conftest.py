"""The fixtures of this room."""

from tests.kit.observers.fixtures import (
    _closed_after,
    _needs_tensorboard,
    killed,
    place,
    undisturbed,
)
