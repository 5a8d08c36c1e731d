"""The fixtures of this room."""

from tests.kit.crashes.fixtures import (
    _shared,
    command,
    resume,
    run,
    train,
    undisturbed,
    world,
)
