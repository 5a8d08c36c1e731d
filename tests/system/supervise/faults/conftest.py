"""The fixtures of this room."""

from tests.kit.fixtures.faults import (
    faults_home,
    faulty_site,
    group,
    mined_reference,
    place,
    reference,
    small_data,
    small_disk,
    undisturbed,
)
from tests.kit.openmp import intel_openmp
