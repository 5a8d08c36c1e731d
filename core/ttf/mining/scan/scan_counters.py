"""Counters of exact scans: how many answers the first pass could certify."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(kw_only=True)
class ScanTally:
    """Counts of one miner, added up over its searches."""

    queries: int = 0
    rescanned: int = 0  # Queries that the first scan could not certify; they were scanned again.
    # User messages about the bank's copy; the caller that shows them removes them.
    notes: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The share of queries that the first scan certified."""
        return 1 - self.rescanned / self.queries if self.queries else 1.0

    def take_notes(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes


@runtime_checkable
class Certifies(Protocol):
    """A miner whose answers are certified, query by query."""

    tally: ScanTally
