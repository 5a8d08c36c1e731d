"""The exact miner: scans the bank with `ttf.BankScan`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf import BankScan, MinerContext, ScanTally, VectorSource, require_bank


class ExactMiner:
    """Builds only the bfloat16 copy of the bank, if the context has a cache for it."""

    def __init__(self, context: MinerContext) -> None:
        self._context = context
        self._search: BankScan | None = None
        self.tally = ScanTally()

    def build(self, source: VectorSource, workdir: Path) -> None:
        cache = self._context.cache
        self._search = BankScan(
            source,
            cache=None if cache is None else Path(cache),
            threads=self._context.threads,
            budget_bytes=self._context.budget_bytes,
            say=lambda text: self.tally.notes.append(text),
        )

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return require_bank(self._search).top_k(queries, k, self.tally)

    def search_below(
        self,
        queries: NDArray[np.float32],
        k: int,
        ceilings: NDArray[np.float32],
        within: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return require_bank(self._search).top_k_below(queries, k, ceilings, self.tally, within)

    def save(self, path: Path) -> None:
        """Does nothing: the bank is the index."""

    def load(self, path: Path, source: VectorSource) -> None:
        self.build(source, path)

    def close(self) -> None:
        if self._search is not None:
            self._search.close()
        self._search = None
