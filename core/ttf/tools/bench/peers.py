"""The peers of the benches: their names, and whether they are installed.

Imports none of them. They are the extra `peers` (and part of `all`), never dependencies.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import metadata
from typing import Final

INSTALL: Final = "not installed: pip install 'twotower[peers]'"


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    module: str
    distribution: str = ""  # empty: the name of the module

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        return metadata.version(self.distribution or self.module) if self.installed else ""


_PEERS: Final = (
    Peer(
        "plain-torch", "a hand-written loop: nn.GRU, AdamW, and a concatenated memory bank", "torch"
    ),
    Peer(
        "pytorch-metric-learning",
        "the same tower with CrossBatchMemory and NTXentLoss",
        "pytorch_metric_learning",
    ),
    Peer("lightning", "the hand-written loop in a Lightning Trainer", "lightning"),
    Peer("faiss-flat", "IndexFlatIP", "faiss", distribution="faiss-cpu"),
    Peer("faiss-hnsw", "IndexHNSWFlat", "faiss", distribution="faiss-cpu"),
    Peer("hnswlib", "hnswlib.Index", "hnswlib"),
    Peer("numpy", "numpy.load, then rows of the loaded array", "numpy"),
    Peer("zarr-python", "rows with oindex of zarr", "zarr"),
    Peer("cached-batches", "the same steps with batches that are already in memory", "torch"),
)
PEERS: Final = {peer.name: peer for peer in _PEERS}
