"""Every fault of the campaign, in the order of its table."""

from __future__ import annotations

from typing import Final

from chaos.campaign import Fault
from chaos.faults import (
    command_bisect,
    crash_states,
    damage,
    damaged_files,
    data_cut,
    disk_full,
    failpoints,
    foreign_deaths,
    hangs,
    host_death,
    launchers,
    memory_governed,
    memory_limit,
    miner_death,
    rank_death,
    stops,
    strace,
    supervisor_death,
    trainer_death,
    tune_death,
)

ALL: Final[tuple[Fault, ...]] = (
    trainer_death.FAULT,
    rank_death.FAULT,
    host_death.FAULT,
    miner_death.FAULT,
    supervisor_death.FAULT,
    stops.FAULT,
    hangs.FAULT,
    failpoints.FAULT,
    strace.FAULT,
    crash_states.FAULT,
    damage.FAULT,
    damaged_files.FAULT,
    disk_full.FAULT,
    memory_limit.FAULT,
    memory_governed.FAULT,
    data_cut.FAULT,
    command_bisect.FAULT,
    tune_death.FAULT,
    launchers.FAULT,
    foreign_deaths.FAULT,
)
