"""The rows in memory: slots of one tensor, and which slots go when others are needed."""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.embedding.look_ahead import NEVER
from ttf.data.embedding.records import Layout
from ttf.data.embedding.sieve import Sieve

# Bytes of a slot and of a row beside the record: what this module and `look_ahead` keep of them.
SLOT_BYTES: Final = 8 + 8 + 8 + 8 + 1 + 1 + 16 + 8
ROW_BYTES: Final = 4 + 4 + 8
_RECENT: Final = 8  # Rows of so many calls stay: their gradients may still come.
_UNUSED: Final = -_RECENT


class HotRows:
    """Tells where rows are; moving their records is the caller's."""

    def __init__(self, rows: int, slots: int, layout: Layout) -> None:
        # Memory of its own mapping: pages that were never used take nothing, and those of slots
        # that are given up can be returned to the system.
        self._memory = mmap.mmap(-1, slots * layout.size)
        self.records = torch.frombuffer(self._memory, dtype=torch.float32).view(slots, layout.words)
        self.array: NDArray[np.float32] = self.records.numpy()
        self.slots = slots  # In use; fewer than there are after `shrink`.
        self.most = slots
        self.dirty = np.zeros(slots, np.bool_)
        # All zeros, which take no time and no memory before they are used. Of slots without a row
        # nothing else is read.
        self._taken = np.zeros(slots, np.bool_)
        self.row_in = np.zeros(slots, np.int64)
        self.next_use = np.zeros(slots, np.int64)
        self.read_for = np.zeros(slots, np.int64)  # The announced batch that a row came with.
        self._slot_of = np.zeros(rows, np.int32)  # Plus one; 0: not in memory.
        self._recent = np.zeros(slots, np.int64)  # The last call that used a slot.
        self._call = 0
        self._sieve = Sieve(slots)
        self._free = np.empty(0, np.int64)  # Of those that had a row before.
        self._untouched = 0  # Slots from here on never had one.
        self._record_size = layout.size

    @property
    def occupied(self) -> int:
        return self.slots - self._num_free

    @property
    def _num_free(self) -> int:
        return len(self._free) + self.slots - self._untouched

    def slots_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """-1: not in memory."""
        return self._slot_of[ids].astype(np.int64) - 1

    def used(self, slots: NDArray[np.int64]) -> None:
        self._call += 1
        # The use that a row was read for is none yet: else a scan of many rows would stay.
        self._sieve.used[slots] |= self._recent[slots] > _UNUSED
        self._recent[slots] = self._call

    # --- making room ------------------------------------------------------------------------------

    def room(self, loaded: int) -> int:
        """How many slots are free, or could be: not used lately, nor by a batch up to `loaded`."""
        return self._num_free + int(np.count_nonzero(self._may_go(loaded)[: self.slots]))

    def victims(self, count: int, loaded: int, *, calls: int = _RECENT) -> NDArray[np.int64]:
        """Slots to be emptied so that `count` are free; fewer if there are no more. Rows of the
        last `calls` calls stay."""
        missing = count - self._num_free
        if missing <= 0:
            return np.empty(0, np.int64)
        may_go = self._may_go(loaded, calls)
        # Choosing some more at once makes the choice cheap.
        wanted = min(max(missing, self.slots // 64), int(np.count_nonzero(may_go)))
        unknown = may_go & (self.next_use == NEVER)
        first = self._sieve.victims(wanted, unknown)
        far = np.flatnonzero(may_go & (self.next_use != NEVER))
        rest = min(missing - len(first), len(far))
        if rest <= 0:
            return first
        farthest = far[np.argpartition(-self.next_use[far], rest - 1)[:rest]]
        self._sieve.remove(farthest)
        return np.concatenate([first, farthest])

    def _may_go(self, loaded: int, calls: int = _RECENT) -> NDArray[np.bool_]:
        idle = self._recent <= self._call - calls
        return idle & self._taken & (self.next_use > loaded)

    def empty(self, slots: NDArray[np.int64]) -> None:
        """Their records were taken elsewhere."""
        self._slot_of[self.row_in[slots]] = 0
        self._taken[slots] = False
        self.dirty[slots] = False
        self.next_use[slots] = NEVER
        self._free = np.concatenate([self._free, slots[slots < self.slots]])

    def fill(self, ids: NDArray[np.int64], next_use: int) -> NDArray[np.int64]:
        """Slots for rows that are not in memory; there are enough free ones."""
        count = len(ids)
        used = min(count, len(self._free))
        slots, self._free = self._free[len(self._free) - used :], self._free[: -used or None]
        new = np.arange(self._untouched, self._untouched + count - used)
        self._untouched += len(new)
        slots = np.concatenate([slots, new])
        self._taken[slots] = True
        self._slot_of[ids] = slots + 1
        self.row_in[slots] = ids
        self.next_use[slots] = next_use
        self.read_for[slots] = -1 if next_use == NEVER else next_use
        self._recent[slots] = _UNUSED
        self._sieve.add(slots)
        return slots

    # --- another size -------------------------------------------------------------------------------

    def above(self, slots: int) -> NDArray[np.int64]:
        """Occupied slots from `slots` on: they are to be emptied before `resize`."""
        return slots + np.flatnonzero(self._taken[slots : self.slots])

    def resize(self, slots: int) -> None:
        """Uses only the first `slots`; the memory of the others goes back to the system."""
        if slots <= self.slots:
            self._untouched = min(self._untouched, slots)
            self._free = self._free[self._free < slots]
            begin = -(-slots * self._record_size // mmap.PAGESIZE) * mmap.PAGESIZE
            if hasattr(mmap, "MADV_DONTNEED") and begin < len(self._memory):
                self._memory.madvise(mmap.MADV_DONTNEED, begin, len(self._memory) - begin)
        self.slots = slots

    def forget(self, slots: NDArray[np.int64]) -> None:
        """As `empty`, for slots that nobody chose by `victims`."""
        self._sieve.remove(slots)
        self.empty(slots)

    def not_announced(self) -> None:
        self.next_use[:] = NEVER
