"""The first floor for every query, from a sample of the bank.

A guess: the certificate finds a floor that is too high, and one that is too low costs time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.mining.scan.bf16_bank import HalfBank

SHARE = 32
_LEAST_ROWS = 4096
_RUN = 16  # Neighbours that are read together: storage is read in pages, not rows.
_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Some rows; the `rank`-th best of them is a query's floor."""

    rows: torch.Tensor
    rank: int

    def floors(self, q_TD: torch.Tensor) -> torch.Tensor:
        # Maxima of groups represent their rows, which lowers a floor a little.
        group = 1
        while group < 16 and len(self.rows) // (2 * group) >= 16 * self.rank:
            group *= 2
        whole = len(self.rows) // group * group
        score_TS = q_TD @ self.rows[:whole].T
        if score_TS.dtype == torch.bfloat16:
            best_TS = score_TS.view(torch.int16).view(len(q_TD), group, -1).amax(1).numpy()
            floors_T = _ranked(best_TS, self.rank)
            if (floors_T > 0).all():  # positive numbers are in the order of their bits
                return torch.from_numpy(floors_T).view(torch.bfloat16).float()
        best_TS = score_TS.view(len(q_TD), group, -1).amax(1).float().numpy()
        return torch.from_numpy(_ranked(best_TS, self.rank))


def _ranked(table_TS: NDArray[Any], rank: int) -> NDArray[Any]:
    """The rank-th largest of each line; several times as fast as topk."""
    place = table_TS.shape[1] - rank
    table_TS.partition(place, axis=1)
    return table_TS[:, place].copy()


def sampled(bank: HalfBank, k: int, *, half: bool) -> Sample | None:
    """A fixed sample of the bank, spread evenly; None if every row can be used."""
    num_rows = bank.shape[0]
    wanted = max(_LEAST_ROWS, num_rows // SHARE)
    if wanted >= num_rows:
        ids = np.arange(num_rows)
    else:
        runs = wanted // _RUN
        begins = np.arange(runs) * (num_rows - _RUN) // max(runs - 1, 1)
        ids = (begins[:, None] + np.arange(_RUN)).ravel()
    rank = int(np.ceil(1.5 * k * len(ids) / num_rows)) + 6
    if rank >= len(ids):
        return None
    rows = bank.some(ids) if half else torch.from_numpy(bank.rows(ids))
    return Sample(rows=rows, rank=rank)
