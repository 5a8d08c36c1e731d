"""The fixtures of this room."""

from tests.kit.fixtures.crashes import (
    _shared,
    assert_resumable,
    command,
    resume,
    run,
    train,
    undisturbed,
    world,
)
from tests.kit.fixtures.frozen import frozen
