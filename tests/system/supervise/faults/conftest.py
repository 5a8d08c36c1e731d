"""The fixtures of this room."""

from tests.kit.faults.fixtures import (
    faults_home,
    faulty_site,
    group,
    intel_openmp,
    place,
    reference,
    small_data,
    small_disk,
    undisturbed,
)
