"""How exact scans went: how many answers the first pass could vouch for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(kw_only=True)
class ScanTally:
    """Counts of one miner, added up over its searches."""

    queries: int = 0
    rescanned: int = 0
    """Queries whose first scan could not certify the answer; they were scanned again."""
    notes: list[str] = field(default_factory=list)
    """What the user should hear of the bank's copy; whoever tells takes them out."""

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
