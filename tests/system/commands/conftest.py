"""The fixtures of this room."""

from tests.kit.fixtures.trained import (
    place,
    trained,
)
