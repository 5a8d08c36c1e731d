"""The fixtures of this room."""

from tests.kit.fixtures.doctor import (
    ask,
    odd_miner,
    run_toml,
    small_data,
    small_group,
    temporary,
)
from tests.kit.openmp import intel_openmp
