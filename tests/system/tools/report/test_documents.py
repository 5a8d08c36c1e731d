"""A run leaves what `ttf.rundir.documents` names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttf.rundir.checkpoint_document import CheckpointManifest
from ttf.rundir.documents import (
    METRICS_LINES,
    AppliedRemedy,
    Incident,
    Manifest,
    MemoryLine,
    MiningLine,
    Summary,
)
from ttf.rundir.run_record import RunRecord
from ttf.rundir.typed_json import typed
from ttf.rundir.verified_folders import CHECKPOINT


def documents(run: Path) -> Iterator[tuple[Any, Any]]:
    """Every document of a run, with its type."""
    for pattern, kind in (
        ("summary.json", Summary),
        ("manifest.json", Manifest),
        ("incidents/*/incident.json", Incident),
        ("incidents/*/applied.json", AppliedRemedy),
        (f"checkpoints/*/{CHECKPOINT}", CheckpointManifest),
    ):
        for path in run.glob(pattern):
            yield json.loads(path.read_text()), kind
    for line in (run / "metrics.jsonl").read_text().splitlines():
        yield (value := json.loads(line)), METRICS_LINES[value["type"]]
    for line in (run / "memory.jsonl").read_text().splitlines():
        yield json.loads(line), MemoryLine


def test_all_that_a_run_writes_is_of_its_type(crashed_run: Path) -> None:
    seen = set()
    for value, kind in documents(crashed_run):
        seen.add(kind)
        assert typed(value, kind) == value
        missing = set(value) - set(kind.__annotations__)
        assert not missing, f"{kind.__name__} does not name {missing}"
    assert {Summary, Manifest, Incident, CheckpointManifest, MemoryLine, MiningLine} <= seen


def test_the_trainer_says_how_many_steps_it_takes(crashed_run: Path) -> None:
    record = RunRecord(crashed_run)
    flight = record.flight()
    assert flight is not None and flight.total_steps == 60
    assert record.total_steps() == 60, "as a folder without that is read"
