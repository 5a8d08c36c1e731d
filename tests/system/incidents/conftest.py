"""The fixtures of this room."""

from tests.kit.fixtures.incidents import (
    join,
    memory_group,
    small_disk,
)
from tests.kit.openmp import intel_openmp
