"""One repeat: a supervised `ttf train` in a process tree of its own, and what is kept of it.

study/runs/007-faiss/     block 7 of the arm faiss: incidents, run.toml, summary.json, stderr.txt
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttf.tools.ab.read_repeat import evaluating_seconds, read_sample
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.schedule import Cell
from ttf.tools.ab.setup import ABSetup
from ttf.tools.studies.one_run import FinishedRun, StartedRun
from ttf.tools.studies.result import result_of, tidy


def train_words(setup: ABSetup, cell: Cell) -> list[str]:
    """The command of a repeat, without --out and --json: what all arms share, then the arm's own,
    then what the study needs."""
    arm = setup.arm(cell.arm)
    out = ["train", arm.toml, "--seed", str(cell.seed), "--no-remedies"]
    if setup.steps is not None:
        out += ["--steps", str(setup.steps)]
    # Equally many steps, and the weights after the last one: all arms are measured there.
    values: dict[str, Any] = {"evaluate.patience": 0, "evaluate.keep_best": False, "gates": []}
    if arm.evaluate_every is not None:
        values["evaluate.every"] = arm.evaluate_every
    if setup.hang_timeout_s is not None:
        values["supervise.hang_timeout_s"] = setup.hang_timeout_s
    of_study = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    for text in (*setup.sets, *arm.sets, *of_study):
        out += ["--set", text]
    return out


def run_folder_name(setup: ABSetup, arm: str, block: int) -> str:
    """In runs/."""
    return f"{block:03d}-{setup.arm(arm).slug}"


def start_repeat(setup: ABSetup, cell: Cell, study: Path) -> StartedRun | FinishedRun[Sample]:
    folder = study / "runs" / run_folder_name(setup, cell.arm, cell.block)
    return StartedRun(train_words(setup, cell), folder, cwd=Path(setup.cwd))


def finish_repeat(cell: Cell, run: StartedRun, *, keep: bool) -> FinishedRun[Sample]:
    """`keep`: the whole folder, with models and checkpoints."""
    error = run.error if run.exit_code else None
    sample = read_sample(cell, run.folder, run.exit_code, error, run.started_at, run.wall_s)
    evaluating_s = evaluating_seconds(run.folder)
    if not keep:
        tidy(run.folder, keep=True)
    return finished_repeat(sample, error, evaluating_s)


def finished_repeat(
    sample: Sample, error: Mapping[str, Any] | None = None, evaluating_s: float = 0.0
) -> FinishedRun[Sample]:
    classes = [incident.name for incident in sample.incidents]
    return FinishedRun(
        run=sample,
        result=result_of(sample.exit_code, classes),
        classes=classes,
        exit_code=sample.exit_code,
        error=error,
        error_details={"repeat": {"arm": sample.arm, "block": sample.block}},
        evaluating_s=evaluating_s,
    )
