"""The memory bank: the last N distinct documents of earlier steps, as extra negatives.

One buffer holds the bank and, in front of it, room for the documents of the current step, so that
a step's candidates are one matrix without a copy of the bank:

    [ ... free | documents of the step | bank slots 0 .. filled-1 | not filled yet, spare ]
                ^------------ candidates, up to a multiple of COLUMNS ------^
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.training.loss.infonce import Trained
from ttf.training.loss.teacher import Goals

NOT_IN_BANK = -1
# The number of candidates is rounded up to a multiple of this. It differs from step to step, and
# oneDNN keeps 0.7 MB for each shape of a product: 700 MB once its cache of 1,024 is full.
COLUMNS: Final = 128


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of a step's documents among its candidates."""

    cand_ND: torch.Tensor
    # The same candidates, if the documents of the step need gradients.
    trained: Trained | None
    # The candidates in bfloat16, if the bank keeps that copy and they need no gradient.
    half_ND: torch.Tensor | None
    target_S: torch.Tensor
    known_SP: torch.Tensor
    dead_K: torch.Tensor | None
    goals: Goals | None = None


class MemoryBank:
    """FIFO of distinct documents; changed only at the optimizer step.

    If documents are fixed, the ids determine the vectors. Otherwise the vectors are the document
    tower's outputs from the step that added them; a document that comes again is updated in place.
    """

    def __init__(
        self,
        *,
        capacity: int,
        num_documents: int,
        dim: int,
        room: int,
        device: torch.device,
        constant_shape: bool = False,
        half: bool = False,
        trainable: bool = False,
    ) -> None:
        """`trainable`: documents get gradients. `half` keeps a second buffer in bfloat16, for runs that compute in bfloat16."""
        self.capacity = capacity
        self._room = room
        self._constant_shape = constant_shape
        rows = room + capacity + COLUMNS - 1
        if trainable:  # see `_trained`
            rows += rows // 8
        self._buffer_ND = torch.zeros(rows, dim, device=device)
        self._half_ND = (
            torch.zeros(rows, dim, dtype=torch.bfloat16, device=device) if half else None
        )
        self._slot_of = np.full(num_documents, NOT_IN_BANK, dtype=np.int32)
        self.ids = np.full(capacity, NOT_IN_BANK, dtype=np.int64)
        self.filled = 0
        self.position = 0  # The slot that is written next.

    def columns(
        self,
        doc_ids: NDArray[np.int64],
        docs_KD: torch.Tensor,
        targets: NDArray[np.int64],
        known: NDArray[np.int64],
        *,
        use_bank: bool,
    ) -> Columns:
        """The candidates of a step: its own documents, then the other documents of the bank, then
        dead columns.

        `docs_KD` is copied into the buffer, where it stays until the next call.
        """
        count = len(doc_ids)
        filled = self.filled if use_bank else 0
        constant = self._constant_shape and not docs_KD.requires_grad
        first = 0 if constant else self._room - count
        front = self._room if constant else count
        last = self._room + (self.capacity if constant else filled + _missing(count + filled))
        self._write(slice(first, first + count), docs_KD.detach())
        cand_ND = self._buffer_ND[first:last]
        dead = self._slot_of[doc_ids]
        dead_columns = [front + dead[dead >= 0].astype(np.int64)] if filled else []
        if len(cand_ND) > front + filled:
            dead_columns.append(np.arange(front + filled, len(cand_ND), dtype=np.int64))
        if front > count:
            dead_columns.append(np.arange(count, front, dtype=np.int64))
        return Columns(
            cand_ND=cand_ND,
            trained=self._trained(docs_KD, first, last) if docs_KD.requires_grad else None,
            half_ND=None
            if self._half_ND is None or docs_KD.requires_grad
            else self._half_ND[first:last],
            target_S=self._tensor(np.searchsorted(doc_ids, targets)),
            known_SP=self._tensor(self._known_columns(doc_ids, known, front, filled)),
            dead_K=self._tensor(np.concatenate(dead_columns)) if dead_columns else None,
        )

    def _trained(self, docs_KD: torch.Tensor, first: int, last: int) -> Trained:
        # Frozen documents are multiplied in blocks; these at once, in 300 shapes while a bank of
        # 40,000 fills. An eighth more rows at most leaves eight for each doubling.
        count = last - first
        lot = max(COLUMNS, (1 << count.bit_length()) // 16)
        wide_WD = self._buffer_ND[first : last + -count % lot]  # fewer where the buffer ends
        return Trained(docs_KD=docs_KD, wide_WD=wide_WD, count=count)

    def _known_columns(
        self, doc_ids: NDArray[np.int64], known: NDArray[np.int64], front: int, filled: int
    ) -> NDArray[np.int64]:
        place = np.minimum(np.searchsorted(doc_ids, known), len(doc_ids) - 1)
        columns = np.where(doc_ids[place] == known, place, -1)
        if filled:
            slots = self._slot_of[np.maximum(known, 0)].astype(np.int64)
            elsewhere = (columns < 0) & (known >= 0) & (slots >= 0)
            columns = np.where(elsewhere, front + slots, columns)
        return columns

    def _tensor(self, values: NDArray[np.integer[Any]]) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int64, copy=False)).to(self._buffer_ND.device)

    @torch.no_grad()
    def commit(self, ids: NDArray[np.int64], vectors_KD: torch.Tensor, *, refresh: bool) -> None:
        """Adds distinct documents and removes the oldest; call after the optimizer step."""
        if not self.capacity:
            return
        slots = self._slot_of[ids]
        if refresh and (slots >= 0).any():
            present = np.flatnonzero(slots >= 0)
            self._write(
                self._room + self._tensor(slots[present]), vectors_KD[self._tensor(present)]
            )
        new = np.flatnonzero(slots < 0)[-self.capacity :]
        into = (self.position + np.arange(len(new))) % self.capacity
        out = self.ids[into]
        self._slot_of[out[out >= 0]] = NOT_IN_BANK
        self.ids[into] = ids[new]
        self._slot_of[ids[new]] = into
        if len(new):
            self._write(self._room + self._tensor(into), vectors_KD[self._tensor(new)])
        self.position = int((self.position + len(new)) % self.capacity)
        self.filled = min(self.capacity, self.filled + len(new))

    def _write(self, where: slice | torch.Tensor, vectors_KD: torch.Tensor) -> None:
        self._buffer_ND[where] = vectors_KD
        if self._half_ND is not None:
            self._half_ND[where] = vectors_KD.to(self._half_ND)

    def vectors(self) -> torch.Tensor:
        return self._buffer_ND[self._room : self._room + self.filled]

    def restore(self, ids: NDArray[np.int64], position: int, vectors_ND: torch.Tensor) -> None:
        """Restores a checkpoint's state; `ids` and vectors in slot order. Raises ValueError,
        LookupError or TypeError if it is that of no bank of this size."""
        if not 0 <= position <= min(len(ids), max(0, self.capacity - 1)):
            raise ValueError(f"bank_position: {position} of {len(ids)} documents")
        if len(ids) and (ids.min() < 0 or len(np.unique(ids)) != len(ids)):
            raise ValueError("the documents of the memory bank are not distinct rows")
        self._slot_of.fill(NOT_IN_BANK)
        self.ids.fill(NOT_IN_BANK)
        self.ids[: len(ids)] = ids
        self._slot_of[ids] = np.arange(len(ids), dtype=np.int32)
        self._write(slice(self._room, self._room + len(ids)), vectors_ND)
        self.filled = len(ids)
        self.position = position


def _missing(columns: int) -> int:
    return -columns % COLUMNS
