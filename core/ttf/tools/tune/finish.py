"""The results of a study, in every form: the document of --json, the table, the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.rundir import durable
from ttf.rundir.documents import Summary
from ttf.rundir.run_record import RunRecord
from ttf.tools.studies.study import RESULT
from ttf.tools.tune import search
from ttf.tools.tune.study import TuneStudy
from ttf.tools.tune.trial import TuneTrial

_AREA: Final = "tune"


def result(study: TuneStudy, summary: Summary, ended: str, used_s: float) -> dict[str, Any]:
    """`ended`: "done", or "stopped" before the last run ended."""
    best, setup = study.best, study.setup
    start = next((t for t in study.counted if t.number == 1), None)
    return {
        "folder": str(study.folder),
        "ended": ended,
        "metric": setup.metric,
        "hold_out": {
            "pairs": setup.facts.held_out,
            "share": setup.hold_out,
            "trained_on": setup.facts.trial_pairs,
        },
        "trial_length": setup.share,
        "start": None if start is None else start.score,
        "best": None if best is None else _best(study, best),
        "importances": search.importances(setup, study.counted),
        "trials": [_line(setup.start_point, trial) for trial in study.runs],
        "used_s": round(used_s, 1),
        "run": {
            "path": str(study.best_run),
            "status": summary.get("status"),
            "metrics": summary.get("metrics", {}),
            "metrics_uncalibrated": summary.get("metrics_uncalibrated"),
            "weights_sha256": summary.get("weights_sha256"),
            "wall_s": summary.get("wall_s"),
        },
    }


def _best(study: TuneStudy, best: TuneTrial) -> dict[str, Any]:
    return {
        "trial": best.number,
        "score": best.score,
        "set": dict(best.point) if best.number > 1 else {},
        "config": str(study.best_toml),
    }


def _line(start: Mapping[str, Any], trial: TuneTrial) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "outcome": trial.outcome,
        "score": trial.score,
        "scores": list(trial.scores),
        "seconds": trial.seconds,
        "set": dict(trial.point) if trial.number > 1 else {},
        "incidents": list(trial.incidents),
        "reason": trial.reason,
    }


def conclude(study: TuneStudy, summary: Summary, used_s: float) -> dict[str, Any]:
    """Writes the page and result.json: the same command then begins a new study."""
    document = result(study, summary, "done", used_s)
    write_page(study)
    durable.write_json(study.folder / RESULT, document, _AREA)
    return document


def write_page(study: TuneStudy, out: Path | None = None) -> Path:
    from ttf.tools.tune.page import write_page as write

    summary = RunRecord(study.best_run).summary()
    shares = search.importances(study.setup, study.counted)
    return write(study, summary, shares, out)


def rewrite_page(folder: Path, out: Path | None) -> Path:
    """Only reads the study's folder: the study may be running."""
    search.require()
    return write_page(TuneStudy.read(folder), out)
