"""The fixtures of this room."""

from tests.kit.monitor.fixtures import (
    _shared,
    live,
    start,
    ttf,
    waiting,
    world,
)
