"""What an embedding table has done, for people and for the governor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

_COUNTS: Final = (
    "requests",
    "hits",
    "demand_loads",
    "late_loads",
    "disk_loads",
    "bytes_read",
    "bytes_written",
    "stall_s",
    "evictions",
    "written_back",
    "updates",
    "syncs",
)


@dataclass(kw_only=True)
class TableStats:
    """Counts since the table was opened; sizes are of now."""

    requests: int = 0  # Distinct rows that were asked for, per call.
    hits: int = 0  # Those that were in memory.
    demand_loads: int = 0  # Rows that a call had to read.
    late_loads: int = 0  # Announced rows whose read a call had to wait for.
    disk_loads: int = 0  # Rows that were read from the files, announced ones included.
    bytes_read: int = 0
    bytes_written: int = 0  # To the journal; to the base file they are written once more.
    stall_s: float = 0.0  # Time that calls waited for the disk.
    evictions: int = 0
    written_back: int = 0  # Evicted rows that had changed.
    updates: int = 0  # Rows that were changed, per call.
    syncs: int = 0
    hot_rows: int = 0
    most_hot_rows: int = 0
    pending_rows: int = 0  # Changed in memory, not yet in the journal.
    journal_bytes: int = 0
    waiting_bytes: int = 0  # Of rows on their way to the journal (L2).
    disk_bytes: int = 0

    def since(self, earlier: TableStats) -> TableStats:
        """Counts between the two; sizes of this one."""
        counts = {name: getattr(self, name) - getattr(earlier, name) for name in _COUNTS}
        return replace(self, **counts)

    @property
    def hit_rate(self) -> float:
        """Share of requests that waited for nothing."""
        return self.hits / self.requests if self.requests else 1.0

    def line(self) -> str:
        return (
            f"{self.hit_rate:.1%} of {self.requests:,} rows were in memory; {self.disk_loads:,} "
            f"read from disk, waited {self.stall_s:.1f} s; {self.evictions:,} evicted; memory holds "
            f"{self.hot_rows:,} of {self.most_hot_rows:,} rows; {self.syncs} syncs; journal "
            f"{self.journal_bytes / 1e6:.0f} MB, files {self.disk_bytes / 1e6:.0f} MB"
        )
