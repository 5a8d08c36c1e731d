"""Rows taken from a map, and the kernel told beforehand which pages of it will be needed.

A row that is not in memory is fetched when it is touched: one after another, each with whatever the
kernel reads around it. Telling it of all rows first makes that one queue of exact reads. Measured,
512 rows from a cold file of 0.9 GB / 1.8 GB, 3 KB / 300 KB a row: 550 / 820 ms as the kernel does it
(826 / 1,520 MB read), 3.8 / 60 ms after MADV_WILLNEED (3 / 150 MB). MADV_RANDOM helps short rows
less (30 ms) and ruins long ones and scans (2,060 ms; 4 to 5 s for 0.4 GB instead of 0.1 to 0.4);
MADV_SEQUENTIAL made scans from 1.2 times faster to 2 times slower. So only WILLNEED is used, row by
row. It costs 0.4 to 2.5 ms where everything is in memory, so it is not asked for there: after a slow
gather, a thread's major faults tell which it is.
"""

from __future__ import annotations

import importlib.util
import mmap
import time
from typing import Final

import numpy as np
from numpy.typing import NDArray

# After a gather that waited for the disk, so many gathers at most get hints before the next trial.
# The number starts at 1 and doubles each time. It returns to 1 after as many gathers without a
# wait.
_MOST_HINTED: Final = 256
_SLOW_S: Final = 2e-4
_SLOW_RATE: Final = 1e9  # bytes/s; a slower gather may have waited for a disk
_TRIAL_ROWS: Final = 8  # rows gathered without a hint, to see whether they are in memory


class PagedRows:
    """The rows of a matrix that starts at `offset` of a map."""

    def __init__(self, mapped: mmap.mmap | None, offset: int, matrix: NDArray[np.uint8]) -> None:
        self._mapped = mapped
        self._offset = offset
        self.matrix = matrix
        self._hints_left = 1 if mapped is not None and _CAN_HINT and matrix.size else 0
        self._hinted_gathers = 1
        self._unhinted = 0

    def take(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Copies `rows`. All must be within the matrix."""
        if self._hints_left > 0:
            self._take_hinted(rows, out)
            return
        began = time.perf_counter()
        self._take(rows, out)
        if time.perf_counter() - began > _SLOW_S + out.nbytes / _SLOW_RATE:
            self._hints_left = 1  # perhaps for another reason: the next one's trial will tell
            return
        self._unhinted += 1
        if self._unhinted == _MOST_HINTED:
            self._hinted_gathers = 1

    def _take_hinted(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        self._hints_left -= 1
        if self._hints_left <= 0:
            before = _major_faults()
            self._take(rows[:_TRIAL_ROWS], out[:_TRIAL_ROWS])
            if _major_faults() > before:
                self._hint_more()
            rows, out = rows[_TRIAL_ROWS:], out[_TRIAL_ROWS:]
        self.will_need(rows)
        self._take(rows, out)

    def _hint_more(self) -> None:
        self._unhinted = 0
        self._hints_left = self._hinted_gathers + 1
        self._hinted_gathers = min(2 * self._hinted_gathers, _MOST_HINTED)

    @property
    def on_disk(self) -> bool:
        return self._hints_left > 0

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Starts reading these rows in the order of the file. Does nothing while rows are in
        memory."""
        if self._hints_left <= 0 or self._mapped is None or not len(rows):
            return
        width = self.matrix.shape[1]
        starts = self._offset + np.unique(rows) * width
        first = starts // mmap.PAGESIZE * mmap.PAGESIZE
        lengths = starts + width - first
        advise = self._mapped.madvise
        for start, length in zip(first.tolist(), lengths.tolist(), strict=True):
            advise(mmap.MADV_WILLNEED, start, length)

    def _take(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        # mode='clip': with 'raise' numpy fills a hidden copy of `out` first.
        np.take(self.matrix, rows, axis=0, out=out, mode="clip")


_CAN_HINT: Final = (
    hasattr(mmap.mmap, "madvise")
    and hasattr(mmap, "MADV_WILLNEED")
    and importlib.util.find_spec("resource") is not None
)

if _CAN_HINT:
    import resource

    # Where a thread's own faults are not told apart, another's only cause a hint too many.
    _RUSAGE_OF: Final[int] = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

    def _major_faults() -> int:
        return resource.getrusage(_RUSAGE_OF).ru_majflt

else:  # pragma: no cover - platforms without madvise

    def _major_faults() -> int:
        return 0
