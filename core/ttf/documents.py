"""The document side of a run: bank rows as the towers see them.

Fixed documents (an identity or frozen tower) are read where they lie; a trainable tower encodes
them when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DevicePolicy, VectorSource
from ttf.data.dataset import Dataset
from ttf.data.refs import VectorRef
from ttf.data.stores import create_store
from ttf.data.vectors import UnitRows, to_float32
from ttf.errors import BadData
from ttf.model import TwoTower


class Documents:
    """Reads, encodes and streams the bank; `dim` is the width after the document tower."""

    def __init__(
        self, data: Dataset, model: TwoTower, policy: DevicePolicy, dim: int, budget_bytes: int
    ) -> None:
        self._data, self._model, self._policy = data, model, policy
        self.dim = dim
        self.fixed = model.documents_as_stored
        self._source: VectorSource = data.bank
        if self.fixed and model.unit:
            self._source = UnitRows(data.bank)
        self.block_rows = max(1024, min(8192, budget_bytes // (8 * 4 * max(dim, 1))))

    @property
    def rows(self) -> int:
        return self._data.bank.shape[0]

    def read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Inputs of `encode`: final vectors where documents are fixed. For the gather thread."""
        return to_float32(self._source.gather(ids), self._source.dtype)

    def encode(self, inputs: NDArray[np.float32]) -> torch.Tensor:
        """Vectors of documents that `read` gave, with a graph where the tower is trainable."""
        x = self._policy.to_device(torch.from_numpy(inputs))
        return x if self.fixed else self._model.encode_documents(x)

    @torch.no_grad()
    def vectors(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Finished vectors of some documents, in eval mode, on the host."""
        if self.fixed:
            return torch.from_numpy(self.read(ids))
        self._model.eval()
        parts = [
            self.encode(self.read(ids[start : start + self.block_rows])).cpu()
            for start in range(0, len(ids), self.block_rows)
        ]
        return torch.cat(parts) if parts else torch.empty(0, self.dim)

    def blocks(self) -> Iterator[tuple[int, torch.Tensor]]:
        """The whole bank as (first row, finished vectors on the host), in order."""
        for start in range(0, self.rows, self.block_rows):
            stop = min(start + self.block_rows, self.rows)
            yield start, self._checked(start, self._block(start, stop))

    @torch.no_grad()
    def _block(self, start: int, stop: int) -> torch.Tensor:
        stored = self._source.read(start, stop)
        wide = np.array(to_float32(stored, self._source.dtype), copy=not stored.flags.writeable)
        return torch.from_numpy(wide) if self.fixed else self.encode(wide).cpu()

    def _checked(self, start: int, block: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(block.sum())):
            wrong = (~torch.isfinite(block).all(dim=1)).nonzero()
            if len(wrong):
                row = start + int(wrong[0])
                raise BadData(
                    f"{self._data.bank.name}[{row}] in {self._data.bank.uri} is not finite "
                    "(NaN or infinite).",
                    hint=f"See all of them: ttf data inspect --full {self._data.bank.uri}",
                )
        return block

    def reference(self, folder: Path) -> VectorRef:
        """What a miner in another process opens; a trainable tower's vectors are written first."""
        if self.fixed:
            return self._data.bank_ref(folder, unit=self._model.unit)
        uri = str((folder / "documents.npz").resolve())
        self._model.eval()
        writer = create_store(uri)
        try:
            array = writer.array("vectors", (self.rows, self.dim), "float32")
            for _, block in self.blocks():
                array.append(block.numpy())
            writer.commit()
        except BaseException:
            writer.abort()
            raise
        return VectorRef(uri=uri, array="vectors", storage="npz")
