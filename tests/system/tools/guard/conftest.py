"""The fixtures of this room."""

from tests.kit.fixtures.faults import faults_home, faulty_site, place, small_data
from tests.kit.fixtures.guard import (
    memory_group,
    pytest_terminal_summary,
    rows,
    small_disk,
    start,
)
from tests.kit.openmp import intel_openmp
