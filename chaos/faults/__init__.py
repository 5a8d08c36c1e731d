"""Every fault of the campaign, in the order of its table."""

from __future__ import annotations

from typing import Final

from chaos.campaign import Fault
from chaos.faults import failpoints, miner_death, stops, supervisor_death, trainer_death

ALL: Final[tuple[Fault, ...]] = (
    trainer_death.FAULT,
    miner_death.FAULT,
    supervisor_death.FAULT,
    failpoints.FAULT,
    stops.FAULT,
)
