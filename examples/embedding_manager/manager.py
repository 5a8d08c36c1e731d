"""A manager of trainable vectors as many projects have one: two dictionaries and a memory map.

It works. It also loses rows when it is killed, writes through the map whenever the kernel likes, does
every row in Python, evicts the row that a shuffled epoch needs next, and gives memory back when the
machine is full of page cache.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped, unused-ignore]
import torch


class EmbeddingManager:
    def __init__(
        self,
        path: str,
        *,
        num_samples: int,
        dim: int,
        l1_mb: float = 256,
        l2_mb: float = 512,
        chunk: int = 1024,
        sync_every: int = 10,
        auto_sync: bool = True,
    ) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        file = Path(path) / "vectors.npy"
        self._file = np.lib.format.open_memmap(
            file, "r+" if file.exists() else "w+", np.float32, (num_samples, dim)
        )
        self._l1: OrderedDict[int, torch.Tensor] = OrderedDict()
        self._l2: OrderedDict[int, torch.Tensor] = OrderedDict()
        self._l1_rows = int(l1_mb * 1e6 // (dim * 4))
        self._l2_rows = int(l2_mb * 1e6 // (dim * 4))
        self._chunk = chunk
        self._sync_every = sync_every if auto_sync else 0
        self._updates = self._hits = self._requests = self._loads = self._syncs = 0

    def get_embeddings(self, sample_ids: torch.Tensor) -> torch.Tensor:
        return torch.stack([self._row(int(each)) for each in sample_ids])

    def _row(self, sample: int) -> torch.Tensor:
        self._requests += 1
        for level in (self._l1, self._l2):
            if sample in level:
                self._hits += 1
                self._keep(sample, level.pop(sample))
                return self._l1[sample]
        self._loads += 1
        self._keep(sample, torch.from_numpy(np.array(self._file[sample])))
        return self._l1[sample]

    def _keep(self, sample: int, vector: torch.Tensor) -> None:
        self._l1[sample] = vector
        if len(self._l1) > self._l1_rows:
            self._l2.update([self._l1.popitem(last=False)])
        if len(self._l2) > self._l2_rows:
            gone, old = self._l2.popitem(last=False)
            self._file[gone] = old.numpy()

    def update_embeddings(self, sample_ids: torch.Tensor, values: torch.Tensor) -> None:
        for sample, value in zip(sample_ids.tolist(), values, strict=True):
            self._l2.pop(sample, None)
            self._keep(sample, value.clone())
        self._updates += 1
        if self._sync_every and self._updates % self._sync_every == 0:
            self.sync()

    def sync(self) -> None:
        for level in (self._l1, self._l2):
            for sample, vector in level.items():
                self._file[sample] = vector.numpy()
        self._file.flush()
        self._syncs += 1

    def adaptive_eviction(self) -> None:
        if psutil.virtual_memory().percent > 85:
            self.sync()
            self._l2.clear()

    def stats(self) -> str:
        rate = self._hits / max(1, self._requests)
        return f"hit rate {rate:.1%}, {self._loads} disk loads, {self._syncs} syncs"
