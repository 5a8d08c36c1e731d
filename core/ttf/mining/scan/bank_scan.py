"""A bank that is searched more than once: chooses the first pass, and when to keep a copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.machine.processor import FirstPass, first_pass
from ttf.mining.scan.bf16_bank import FlyingHalf, HalfBank, Say, open_half
from ttf.mining.scan.certified_top_k import Scan
from ttf.mining.scan.scan_counters import ScanTally

# With more queries a scan is limited by its product; with fewer, by reading the bank, which
# rounding it or checking a copy of it would only add to.
ENOUGH_QUERIES = 128


class BankScan:
    """Opened at the first search. Close it when done."""

    def __init__(
        self,
        source: VectorSource,
        *,
        cache: Path | None,
        threads: int,
        budget_bytes: int,
        say: Say,
        first: FirstPass | None = None,
    ) -> None:
        """`first` None: chosen by processor."""
        self._source = source
        self._cache = cache
        self._say = say
        self._threads = threads
        self._budget_bytes = budget_bytes
        self._first = first or first_pass()
        self._bank: HalfBank | None = None

    def top_k(
        self, queries: NDArray[np.float32], k: int, tally: ScanTally
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `Scan.top_k`."""
        return self._scan(len(queries)).top_k(queries, k, tally)

    def top_k_below(
        self,
        queries: NDArray[np.float32],
        k: int,
        ceilings: NDArray[np.float32],
        tally: ScanTally,
        within: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `Scan.top_k_below`."""
        return self._scan(len(queries)).top_k_below(queries, k, ceilings, tally, within)

    def _scan(self, num_queries: int) -> Scan:
        kept = self._bank is not None and self._bank.kept
        half = self._first == "bf16" and (kept or num_queries >= ENOUGH_QUERIES)
        if half and self._bank is None:
            self._bank = open_half(self._source, self._cache, self._say)
        return Scan(
            bank=self._bank if half and self._bank else FlyingHalf(self._source),
            threads=self._threads,
            budget_bytes=self._budget_bytes,
            first="bf16" if half else "fp32",
        )

    def close(self) -> None:
        if self._bank is not None:
            self._bank.close()
        self._bank = None
