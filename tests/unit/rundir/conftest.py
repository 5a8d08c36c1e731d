"""The fixtures of this room."""

from tests.kit.fixtures.durability import (
    _one_thread,
    forker,
    forking,
    ram,
)
