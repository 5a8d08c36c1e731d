"""How many documents are read at a time."""

from __future__ import annotations

from typing import Final

LEAST_BLOCK_ROWS: Final = 1024
_MOST: Final = 8192
_FLOAT: Final = 4
_SHARE: Final = 8  # of the budget: a block is held several times while it is compared


def block_rows(budget_bytes: int, dim: int) -> int:
    """Documents in a block. The results of mining and evaluation do not depend on it.

    >>> block_rows(1 << 30, 768), block_rows(64 << 20, 768), block_rows(1, 768)
    (8192, 2730, 1024)
    """
    most = budget_bytes // (_SHARE * _FLOAT * max(dim, 1))
    return max(LEAST_BLOCK_ROWS, min(_MOST, most))
