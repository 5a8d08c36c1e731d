"""Deaths that the table of causes was not made with: the right answer was written down before the first
run, and the rules were mended afterwards. `faults/foreign_deaths.py` runs them."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.fifth_guard import FIFTH_GUARD
from chaos.foreign.fifth_train import FIFTH_TRAIN
from chaos.foreign.fourth_guard import FOURTH_GUARD
from chaos.foreign.fourth_train import FOURTH_TRAIN
from chaos.foreign.held_back import HELD_BACK
from chaos.foreign.second_guard import SECOND_GUARD
from chaos.foreign.second_train import SECOND_TRAIN
from chaos.foreign.second_waiting import SECOND_WAITING
from chaos.foreign.sixth_guard import SIXTH_GUARD
from chaos.foreign.sixth_train import SIXTH_TRAIN
from chaos.foreign.under_guard import UNDER_GUARD
from chaos.foreign.under_train import UNDER_TRAIN

FOREIGN: Final[tuple[Foreign, ...]] = (
    *UNDER_GUARD,
    *UNDER_TRAIN,
    *HELD_BACK,
    *SECOND_GUARD,
    *SECOND_WAITING,
    *SECOND_TRAIN,
    *FOURTH_GUARD,
    *FOURTH_TRAIN,
    *FIFTH_GUARD,
    *FIFTH_TRAIN,
    *SIXTH_GUARD,
    *SIXTH_TRAIN,
)
