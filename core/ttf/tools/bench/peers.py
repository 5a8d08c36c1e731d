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
    Peer("plain-torch", "a loop by hand: nn.GRU, AdamW, the memory bank concatenated", "torch"),
    Peer(
        "pytorch-metric-learning",
        "the same tower under CrossBatchMemory and NTXentLoss",
        "pytorch_metric_learning",
    ),
    Peer("lightning", "the loop by hand under a Lightning Trainer", "lightning"),
    Peer("faiss-flat", "IndexFlatIP", "faiss", distribution="faiss-cpu"),
    Peer("faiss-hnsw", "IndexHNSWFlat", "faiss", distribution="faiss-cpu"),
    Peer("hnswlib", "hnswlib.Index", "hnswlib"),
    Peer("numpy", "numpy.load, and rows taken from what it loaded", "numpy"),
    Peer("zarr-python", "rows by zarr's oindex", "zarr"),
    Peer("cached-batches", "the same steps on batches that are in memory already", "torch"),
)
PEERS: Final = {peer.name: peer for peer in _PEERS}
