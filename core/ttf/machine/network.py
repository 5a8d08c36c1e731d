"""The network between the nodes of a run, as `ttf doctor --peers` measured it from this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ttf.errors import ArtifactDamaged
from ttf.machine import processor
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import read_json
from ttf.rundir.durable import write_json
from ttf.rundir.typed_json import dataclass_from

MEASURE: Final = "ttf doctor --peers"
# Where nothing was measured: Ethernet of 10 Gb/s, in one building.
ASSUMED_GBIT: Final = 10.0
ASSUMED_LATENCY_MS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class MeasuredNetwork:
    """Of the slowest connection between two nodes. `latency_ms`: one way, half of a round trip."""

    date: str
    nodes: int
    gbit: float
    latency_ms: float


def network_file() -> Path:
    return processor.machine_dir() / "network.json"


def kept_network() -> MeasuredNetwork | None:
    """None if nothing was measured, or the file is not readable: it can be measured again."""
    try:
        found = dataclass_from(MeasuredNetwork, read_json(network_file(), cache_dir()))
    except (OSError, ArtifactDamaged, ValueError, LookupError, TypeError):
        return None
    return found if found.gbit > 0 and found.latency_ms >= 0 else None


def save_network(found: MeasuredNetwork) -> Path:
    """Raises StorageError."""
    file = network_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, asdict(found), "machine")
    return file
