"""The fixtures of this room."""

from tests.kit.guard.fixtures import (
    intel_openmp,
    memory_group,
    rows,
    small_disk,
    start,
)
