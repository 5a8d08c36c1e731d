"""The fixtures of this room."""

from tests.kit.fixtures.crashes import (
    _shared,
    command,
    resume,
    run,
    train,
    undisturbed,
    world,
)
