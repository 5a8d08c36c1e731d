"""The fixtures of this room."""

from tests.kit.incidents.fixtures import (
    intel_openmp,
    join,
    memory_group,
    small_disk,
)
