"""checkpoints/step-N/checkpoint.json, key by key; see `ttf.rundir.documents` for what may be missing."""

from __future__ import annotations

from typing import Any, TypedDict

from ttf.rundir.documents import Summary


class CheckpointProgress(TypedDict, total=False):
    table: str  # Key of the candidate table that training continues with; empty: none.
    bank_position: int
    selection: dict[str, Any]  # Which weights are the best so far: see `Selection.to_json`.
    totals: dict[str, Any]  # Sums over all processes: the fields of `Totals`.
    summary: Summary


class CheckpointManifest(TypedDict, total=False):
    format: int
    step: int
    files: dict[str, str]  # SHA-256 by name.
    table: dict[str, str]
    progress: CheckpointProgress
    sha256: str  # Of everything above.
