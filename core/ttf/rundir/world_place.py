"""Where a trainer stands among the trainers of a run on several processes; part of its request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorldPlace:
    """One rank of one attempt. A run that dies and starts again has another attempt, and perhaps
    other ranks."""

    rank: int
    size: int
    local_rank: int = 0  # Among the ranks of its node; 0 keeps the folder of the node.
    local_size: int = 1
    store: str = ""  # HOST:PORT where rank 0 listens for the others.
    hosted: bool = False  # Not rank 0 listens there, but the launcher.
    attempt: int = 0
    interface: str = ""  # Network interface, e.g. "eth0"; empty: that of the store's address.
    exchange_timeout_s: float = 60.0
    # The host of each rank, for messages; may be empty.
    hosts: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """Its own; empty if the run has one host."""
        return self.hosts[self.rank] if self.rank < len(self.hosts) else ""

    def host_of(self, rank: int) -> str:
        return f"rank {rank} ({self.hosts[rank]})" if rank < len(self.hosts) else f"rank {rank}"
