"""The hooks a plugin may implement; one sentence each says when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ttf.contracts import (
        DeviceFactory,
        EvalRecord,
        MinerFactory,
        StepRecord,
        StorageFactory,
        TowerFactory,
    )
    from ttf.tools.doctor.check import Check

hookspec = pluggy.HookspecMarker("ttf")
hookimpl = pluggy.HookimplMarker("ttf")


@hookspec(firstresult=True)
def ttf_tower(name: str) -> TowerFactory | None:
    """Return the factory of the tower `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_miner(name: str) -> MinerFactory | None:
    """Return the factory of the miner `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_storage(name: str) -> StorageFactory | None:
    """Return the factory of the storage `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_device(name: str) -> DeviceFactory | None:
    """Return the factory of the device `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_doctor_check(name: str) -> Check | None:
    """Return the check `name` of `ttf doctor`, or None if it is not yours; it is loaded and run in a
    process of its own."""


@hookspec
def ttf_run_started(run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
    """Called in every process that trains, once the data is open and the towers are built. Steps
    after `resumed_from` are done, perhaps again; 0: a new run, or one that ended before its first
    checkpoint."""


@hookspec
def ttf_step(record: StepRecord) -> None:
    """Called after every optimizer step; keep it below a millisecond."""


@hookspec
def ttf_evaluated(record: EvalRecord) -> None:
    """Called after every evaluation, the one before training included."""


@hookspec
def ttf_checkpointed(step: int, path: Path) -> None:
    """Called when a checkpoint is complete and durable."""


@hookspec
def ttf_incident(incident: Mapping[str, Any]) -> None:
    """Called when an incident was written; the mapping is its incident.json."""


@hookspec
def ttf_run_finished(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Called once summary.json is written, however the run ended."""
