"""A block of rows in groups of every 64th row, with the error bounds of the groups."""

from __future__ import annotations

import torch

GROUPS = 64


class Block:
    """Rows of the bank from `first` on, padded to whole groups, and the bounds of its groups."""

    def __init__(
        self, rows_ND: torch.Tensor, first: int, norms_N: torch.Tensor, residuals_N: torch.Tensor
    ) -> None:
        self.first = first
        self.count = len(rows_ND)
        missing = -self.count % GROUPS
        pad = torch.nn.functional.pad
        self.rows = pad(rows_ND, (0, 0, 0, missing)) if missing else rows_ND
        self.norms_G = pad(norms_N, (0, missing)).view(-1, GROUPS).amax(0)
        self.residuals_G = pad(residuals_N, (0, missing)).view(-1, GROUPS).amax(0)
        self.longest = float(norms_N.amax())
