"""summary.json: how a run ended and its results; the keys are a public contract.

Written by the trainer, or by the supervisor if the trainer died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ttf.errors import DataChanged, ExitCode, StorageError, Told
from ttf.rundir.calibration_facts import calibration_facts, shown
from ttf.rundir.checkpoint_document import CheckpointManifest
from ttf.rundir.confined import found_json
from ttf.rundir.documents import (
    MODEL_CONFIG,
    ListedIncident,
    ModelFacts,
    Summary,
)
from ttf.rundir.incident_files import list_incidents
from ttf.rundir.request import Change, History
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.typed_json import typed
from ttf.rundir.verified_folders import CHECKPOINT, newest_first, problem_with

_NOTHING: Final[Summary] = {
    "steps": 0,
    "epochs": 0.0,
    "samples": 0,
    "metrics": {},
    "metrics_initial": {},
    "metrics_last": {},
    "best_step": 0,
    "kept_step": None,
    "chosen_by": "",
    "samples_per_s": 0.0,
    "wall_s": 0.0,
    "peak_anon_mb": 0.0,
    "deviations": [],
    "notes": [],
    "miner": "",
    "seed": None,
}


@dataclass(kw_only=True)
class Ending:
    """How a run ended; the default is an internal error."""

    status: str = "failed"
    exit_code: int = ExitCode.OUR_FAULT
    problem: str = ""
    hint: str = ""  # What the user can do about it.
    deviation: str = ""  # Why nobody can say that the numbers are exact.

    @classmethod
    def of(cls, error: Told, status: str = "failed") -> Self:
        # A resume that finds the original data again goes on from its checkpoint, which is exact.
        changed = isinstance(error, DataChanged)
        return cls(
            status=status,
            exit_code=error.exit_code,
            problem=str(error),
            hint=error.hint,
            deviation="the run ended because its data had changed" if changed else "",
        )


def summarize(
    ending: Ending,
    known: Summary,
    model: Path,
    incidents: list[ListedIncident],
    *,
    restarts: int,
    deviations: Sequence[str],
) -> Summary:
    """`known`: what does not depend on the end, see `ttf.training.recorder.summary_facts`. `model`:
    its folder, which may be newer than the checkpoint that `known` comes from."""
    differ = list(dict.fromkeys([*known.get("deviations", ()), *deviations, ending.deviation]))
    differ = [text for text in differ if text]
    return {
        "status": ending.status,
        "exit_code": int(ending.exit_code),
        "problem": ending.problem,
        "hint": ending.hint,
        **known,
        **of_the_model(model),
        "exact": not differ,
        "deviations": differ,
        "restarts": restarts,
        "incidents": incidents,
    }


def of_the_model(model: Path) -> Summary:
    """The keys of a summary that the folder `model/` decides."""
    facts = typed(found_json(model / MODEL_CONFIG, model.parent), ModelFacts)
    if "step" not in facts:
        return {"weights_sha256": None, "kept_step": None}
    weights, metrics = facts.get("weights_sha256"), facts.get("metrics", {})
    found: Summary = {
        "weights_sha256": weights,
        "kept_step": facts["step"],
        "metrics": metrics,
    }
    calibrated = calibration_facts(model, weights)
    if calibrated:
        found["calibration"] = shown(calibrated)
    if calibrated.get("on") and "metrics" in calibrated:
        found["metrics"] = calibrated["metrics"]
        found["metrics_uncalibrated"] = metrics
    return found


def write_last_summary(
    folder: RunFolder, ending: Ending, history: History, overlay: Mapping[str, Change]
) -> StorageError | None:
    """From the newest checkpoint's facts. Returns why it could not be written: the error that ends
    the run is more important."""
    known: Summary = {**_NOTHING, **_newest_facts(folder), "wall_s": history.wall_s}
    summary = summarize(
        ending,
        known,
        folder.model,
        list_incidents(folder.incidents),
        restarts=history.restarts,
        deviations=[change.deviation for change in overlay.values() if change.deviation],
    )
    try:
        folder.write_summary(summary)
    except StorageError as error:
        return error
    return None


def _newest_facts(folder: RunFolder) -> Summary:
    for path in newest_first(folder.checkpoints):
        if not problem_with(path, read_tables=False):
            manifest = typed(found_json(path / CHECKPOINT, folder.path), CheckpointManifest)
            return manifest.get("progress", {}).get("summary", {})
    return {}
