"""The fixtures of this room."""

from tests.kit.doctor.fixtures import (
    ask,
    odd_miner,
    run_toml,
    small_data,
    small_group,
    temporary,
)
