"""The document side of a run: bank rows as the towers see them.

Fixed documents (an identity or frozen tower) are read from storage; a trainable tower encodes
documents when they are needed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DevicePolicy, VectorSource
from ttf.data.dataset import OpenBank
from ttf.data.finite import require_finite_documents
from ttf.data.items import Items, Numbered
from ttf.data.sources import OpenRef, VectorRef, open_ref
from ttf.data.vectors import UnitRows, to_float32
from ttf.errors import DataMissing, NumericFailure
from ttf.host.plugins import written_store
from ttf.training.blocks import block_rows
from ttf.training.towers import TwoTower

LOT = 256
DOCUMENTS = "documents.npz"


class Documents:
    """Reads, encodes and streams the bank; `dim` is the width after the document tower."""

    def __init__(
        self, data: OpenBank, model: TwoTower, policy: DevicePolicy, dim: int, budget_bytes: int
    ) -> None:
        self._data = data
        self._model = model
        self._policy = policy
        self.dim = dim
        self.fixed = model.documents_as_stored
        self._source: VectorSource = data.bank
        if self.fixed and model.unit:
            self._source = UnitRows(data.bank)
        if model.documents_numbered and not isinstance(data.bank, Items):
            self._source = Numbered(data.bank)
        self._frozen: tuple[VectorRef, OpenRef] | None = None
        self.block_rows = block_rows(budget_bytes, dim)

    def seen_by(self, model: TwoTower, policy: DevicePolicy) -> Documents:
        """The same documents with other weights on another device; do not close the result."""
        other = copy.copy(self)
        other._model = model
        other._policy = policy
        return other

    @property
    def rows(self) -> int:
        return self._data.bank.shape[0]

    @property
    def source(self) -> VectorSource:
        return self._source

    def read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Inputs of `encode`: final vectors if documents are fixed. For the gather thread."""
        return to_float32(self._source.gather(ids), self._source.dtype)

    def encode(self, inputs: NDArray[np.float32]) -> torch.Tensor:
        """Vectors of documents that `read` returned, with a graph if the tower is trainable."""
        if self.fixed:
            return self._policy.to_device(torch.from_numpy(inputs))
        padded = _pad_to_lots(inputs)
        x = self._policy.to_device(torch.from_numpy(padded))
        return self._model.encode_documents(x)[: len(inputs)]

    @torch.no_grad()
    def vectors(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Final vectors of some documents, in eval mode, on the host."""
        if self.fixed:
            return torch.from_numpy(self.read(ids))
        self._model.eval()
        parts = [
            self.encode(self.read(ids[start : start + self.block_rows])).cpu()
            for start in range(0, len(ids), self.block_rows)
        ]
        return torch.cat(parts) if parts else torch.empty(0, self.dim)

    def compared(self, queries_QD: torch.Tensor) -> torch.Tensor:
        """Query vectors as they are compared with these documents."""
        return queries_QD

    def blocks(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """The whole bank as (first row, final vectors on the host), in order; from `begin` on,
        the first row of a block, to `end`, the first one of another."""
        assert begin % self.block_rows == 0 or begin == self.rows
        if not self.fixed:
            self._model.eval()
        for start in range(begin, self.rows if end is None else end, self.block_rows):
            stop = min(start + self.block_rows, self.rows)
            stored = self._source.read(start, stop)
            wide = to_float32(stored, self._source.dtype)
            if not wide.flags.writeable:  # a view of the file, which torch would warn about
                wide = wide.copy()
            block = self._encoded(wide)
            if not bool(torch.isfinite(block.sum())):
                self._raise_if_not_finite(start, wide, block)
            yield start, block

    @torch.no_grad()
    def _encoded(self, inputs: NDArray[np.float32]) -> torch.Tensor:
        return self.encode(inputs).cpu()

    def _raise_if_not_finite(
        self, start: int, inputs: NDArray[np.float32], block: torch.Tensor
    ) -> None:
        # The sum of a block may overflow although no value does: look at each row.
        self.raise_if_inputs_not_finite(
            np.arange(start, start + len(inputs), dtype=np.int64), inputs
        )
        wrong = (~torch.isfinite(block).all(dim=1)).nonzero()
        if len(wrong):
            raise NumericFailure(
                "The document tower computed a vector with NaN or infinity for "
                f"{self._data.document_name(start + int(wrong[0]))}, but the input of the tower "
                "is finite.",
                hint="The weights have probably diverged. Try a lower --lr.",
            )

    def raise_if_inputs_not_finite(
        self, ids: NDArray[np.int64], inputs: NDArray[np.float32]
    ) -> None:
        """Raises BadData that names the first document with NaN or infinity; `inputs` as from
        `read`."""
        require_finite_documents(self._data, ids, inputs)

    def reference(self, folder: Path) -> VectorRef:
        """The vectors for a miner in another process; a trainable tower's are written first."""
        if self._frozen is not None:
            return self._frozen[0]
        if self.fixed:
            return self._data.bank_ref(folder, unit=self._model.unit)
        return self._written(folder / DOCUMENTS)

    def freeze(self, folder: Path, *, must_exist: bool) -> None:
        """Writes a frozen tower's vectors to `folder` once; later they are read like stored
        vectors, and their indexes are kept."""
        path = folder / DOCUMENTS
        if must_exist and not path.exists():
            raise DataMissing(
                f"{path} no longer exists. It contained the vectors of the frozen document tower, "
                "and ttf wrote it at the start of the run.",
                hint="Restore the file, or start a new run.",
            )
        ref = _reference_to(path) if path.exists() else self._written(path)
        self._frozen = ref, open_ref(ref)
        self._source = self._frozen[1].source
        self.fixed = True

    def close(self) -> None:
        if self._frozen is not None:
            self._frozen[1].close()

    def _written(self, path: Path) -> VectorRef:
        with written_store(str(path)) as writer:
            array = writer.array("vectors", (self.rows, self.dim), "float32")
            for _, block in self.blocks():
                array.append(block.numpy())
        return _reference_to(path)


class Corrected:
    """Documents with one more dimension, `column`, which is 1 in every query."""

    def __init__(self, documents: Documents, column: NDArray[np.float32]) -> None:
        self._documents = documents
        self._column = torch.from_numpy(column)
        self.rows = documents.rows
        self.block_rows = documents.block_rows

    def compared(self, queries_QD: torch.Tensor) -> torch.Tensor:
        return with_column(queries_QD, torch.ones(len(queries_QD)))

    def vectors(self, ids: NDArray[np.int64]) -> torch.Tensor:
        return with_column(self._documents.vectors(ids), self._column[torch.from_numpy(ids)])

    def blocks(self) -> Iterator[tuple[int, torch.Tensor]]:
        for start, block in self._documents.blocks():
            yield start, with_column(block, self._column[start : start + len(block)])


def with_column(rows_ND: torch.Tensor, column_N: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows_ND, column_N[:, None]], dim=1)


def _reference_to(path: Path) -> VectorRef:
    return VectorRef(uri=str(path.resolve()), array="vectors", storage="npz")


def _pad_to_lots(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pads with copies of the first row. The number of distinct documents differs per step, and
    activations of ever new sizes fragment the heap (1.5 GB held for 0.5 GB needed,
    wordnet-definitions with two towers at 2,048 a step)."""
    missing = -len(inputs) % LOT
    if not missing or not len(inputs):
        return inputs
    return np.concatenate([inputs, np.broadcast_to(inputs[:1], (missing, inputs.shape[1]))])
