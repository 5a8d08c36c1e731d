"""The fixtures of this room."""

from tests.kit.durability.fixtures import (
    _one_thread,
    forker,
    forking,
    ram,
)
