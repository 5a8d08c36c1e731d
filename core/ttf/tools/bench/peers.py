"""The peers that speeds are compared with: what they are called, and whether they are installed.

Nothing is imported here. They are the extra `peers` (and what `all` brings), never dependencies.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import metadata
from typing import Final

INSTALL: Final = "not installed: pip install 'twotower[peers]'"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A peer by the name that results give it."""

    name: str
    title: str
    module: str
    distribution: str

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        return metadata.version(self.distribution) if self.installed else ""


PEERS: Final[dict[str, Peer]] = {
    peer.name: peer
    for peer in (
        Peer(
            name="plain-torch",
            title="a loop by hand: nn.GRU, AdamW, the memory bank concatenated",
            module="torch",
            distribution="torch",
        ),
        Peer(
            name="pytorch-metric-learning",
            title="the same tower under CrossBatchMemory and NTXentLoss",
            module="pytorch_metric_learning",
            distribution="pytorch-metric-learning",
        ),
        Peer(
            name="lightning",
            title="the loop by hand under a Lightning Trainer",
            module="lightning",
            distribution="lightning",
        ),
        Peer(name="faiss-flat", title="IndexFlatIP", module="faiss", distribution="faiss-cpu"),
        Peer(name="faiss-hnsw", title="IndexHNSWFlat", module="faiss", distribution="faiss-cpu"),
        Peer(name="hnswlib", title="hnswlib.Index", module="hnswlib", distribution="hnswlib"),
        Peer(
            name="numpy",
            title="numpy.load, and rows taken from what it loaded",
            module="numpy",
            distribution="numpy",
        ),
        Peer(name="zarr-python", title="rows by zarr's oindex", module="zarr", distribution="zarr"),
        Peer(
            name="cached-batches",
            title="the same steps on batches that are in memory already",
            module="torch",
            distribution="torch",
        ),
    )
}
