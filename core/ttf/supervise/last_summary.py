"""The summary of a run whose trainer is no more: what its newest checkpoint knew of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ttf.errors import StorageError
from ttf.rundir.checkpoint_files import MANIFEST, newest_first, problem_with
from ttf.rundir.documents import CheckpointManifest, Summary
from ttf.rundir.folder import RunFolder
from ttf.rundir.incident_files import list_incidents
from ttf.rundir.request import Change, History
from ttf.rundir.typed_json import read_typed
from ttf.training.summary import Ending, summarize

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
    "miner": "",
    "seed": None,
}


def write_last_summary(
    folder: RunFolder, ending: Ending, history: History, overlay: Mapping[str, Change]
) -> StorageError | None:
    """Writes summary.json; returns why it could not: the error that ends the run is
    the more important one."""
    known: Summary = {**_NOTHING, **_newest_facts(folder), "wall_s": history.wall_s}
    summary = summarize(
        ending,
        known,
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
            manifest = read_typed(path / MANIFEST, CheckpointManifest)
            return manifest.get("progress", {}).get("summary", {})
    return {}
