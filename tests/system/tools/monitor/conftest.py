"""The fixtures of this room."""

from tests.kit.fixtures.monitor import (
    _shared,
    live,
    start,
    ttf,
    waiting,
    world,
)
