"""Trains a few steps, supervised like any run, on a small synthetic set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ttf.api import Run
    from ttf.contracts import Kind

STEPS: Final = 6
_BATCH: Final = 16
# Kinds that the miner process loads as well. Runs for other kinds have no miner: shorter.
_MINED: Final = ("miner", "storage")


def small_set(folder: Path) -> dict[str, Path]:
    """Writes `pairs.npz` and `bank.npz`."""
    from ttf.data.synth import SynthShape, write_synth

    return write_synth(
        folder, SynthShape(pairs=STEPS * _BATCH, val=16, seq_len=4, dim=16, bank=120, seed=3)
    )


def what_happened(run: Run) -> str:
    """Describes each incident of a run with its evidence."""
    from ttf.rundir.run_record import RunRecord

    told = []
    for incident in RunRecord(run.path).incidents():
        lines = incident.get("evidence", ())
        evidence = (f"  {line.get('source')}: {line.get('text')}" for line in lines)
        told += [f"{incident['class']}: {incident.get('explanation')}", *evidence]
    return "\n".join(told) or "nothing happened"


def train(
    kind: Kind,
    name: str,
    options: Mapping[str, Any],
    data: Mapping[str, Path],
    out: Path,
    doc_tower: str = "identity",
) -> Run:
    """Trains with the plugin, and with the simplest built-in plugins for all other kinds."""
    import ttf

    config: dict[str, Any] = {
        "data": {"pairs": str(data["pairs"]), "bank": str(data["bank"])},
        "tower": {"query": {"name": "linear"}, "doc": {"name": doc_tower}},
        "miner": {"name": "exact", "k": 10, "negatives": 2 if kind in _MINED else 0},
        "device": {"name": "cpu", "threads": 1},
        "train": {"steps": STEPS, "batch_size": _BATCH, "fuse": 1},
        "evaluate": {"every": "end"},
        "checkpoint": {"every_s": 3600},
        "supervise": {"hang_timeout_s": 60},
    }
    if kind == "tower":
        config["tower"]["query"] = {"name": name, **options}
    elif kind == "storage":
        config["data"]["storage"] = name
    else:
        config[kind] |= {"name": name, **({name: dict(options)} if options else {})}
    return ttf.train(config, out=out)
