"""One repeat: a supervised `ttf train` in its own process tree, its kept files, and the sample that
is read from them, also of an interrupted run.

study/runs/007-faiss/     block 7 of the arm faiss: incidents, run.toml, summary.json, stderr.txt
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ttf.errors import DataMissing, ExitCode
from ttf.rundir.documents import FiledIncident, Summary
from ttf.rundir.run_record import RunRecord
from ttf.tools.ab.commands import read_command, start_command
from ttf.tools.ab.sample import Curve, EvalPoint, RepeatIncident, RepeatOutcome, Sample
from ttf.tools.ab.setup import ABSetup, Cell
from ttf.tools.monitor.trend import theil_sen
from ttf.tools.studies.one_run import FinishedRun, Result, StartedRun, result_of, tidy


def train_words(setup: ABSetup, cell: Cell) -> list[str]:
    """The arguments, without --out and --json: of all arms, then the arm's, then the study's."""
    arm = setup.arm(cell.arm)
    out = ["train", arm.toml, "--seed", str(cell.seed), "--no-remedies"]
    if setup.steps is not None:
        out += ["--steps", str(setup.steps)]
    # Equally many steps, and the weights after the last one: all arms are measured there.
    values: dict[str, Any] = {"evaluate.patience": 0, "evaluate.keep_best": False, "gates": []}
    values["evaluate.above_chance"] = False  # What an arm learns is for the study to judge.
    if arm.evaluate_every is not None:
        values["evaluate.every"] = arm.evaluate_every
    if setup.hang_timeout_s is not None:
        values["supervise.hang_timeout_s"] = setup.hang_timeout_s
    of_study = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    for text in (*setup.sets, *arm.sets, *of_study):
        out += ["--set", text]
    return out


def run_folder_name(setup: ABSetup, arm: str, block: int) -> str:
    """The name of its folder in runs/."""
    return f"{block:03d}-{setup.arm(arm).slug}"


def start_repeat(
    setup: ABSetup, cell: Cell, study: Path, *, allow_remote: bool = True
) -> StartedRun | FinishedRun[Sample]:
    if not (Path(setup.cwd).is_dir() and os.access(setup.cwd, os.X_OK)):
        raise DataMissing(
            f"The study in {study} was started in the folder {setup.cwd}, which does not exist here "
            "or cannot be entered. Relative paths of its configurations start there.",
            hint="Make this folder with the data in it, or start a new study.",
        )
    folder = study / "runs" / run_folder_name(setup, cell.arm, cell.block)
    if setup.commands is not None:
        return start_command(setup, cell, folder)
    words = [*train_words(setup, cell), *([] if allow_remote else ["--no-remote"])]
    return StartedRun(words, folder, cwd=Path(setup.cwd))


def finish_repeat(
    setup: ABSetup, cell: Cell, run: StartedRun, *, keep: bool
) -> FinishedRun[Sample]:
    """`keep`: the whole folder, with models and checkpoints."""
    if setup.commands is not None:
        sample = read_command(setup, cell, run)
        tidy(run.folder, keep=True)
        finished = finished_repeat(sample, refused(sample))
        # Its own code (127: not found) means nothing as one of ours.
        invalid = finished.result == "invalid"
        return replace(finished, exit_code=int(ExitCode.USAGE)) if invalid else finished
    error = run.error if run.exit_code else None
    sample = read_sample(cell, run.folder, run.exit_code, error, run.started_at, run.wall_s)
    evaluating_s = evaluating_seconds(run.folder)
    if not keep:
        tidy(run.folder, keep=True)
    return finished_repeat(sample, error, evaluating_s)


def refused(sample: Sample) -> Mapping[str, Any]:
    """The error of a study that needs this command."""
    if sample.outcome != "invalid":
        return {"class": "TtfError", "message": sample.reason}
    return {
        "class": "ConfigError",
        "message": f"The command does not start ({sample.reason}): {sample.arm}",
    }


def finished_repeat(
    sample: Sample, error: Mapping[str, Any] | None = None, evaluating_s: float = 0.0
) -> FinishedRun[Sample]:
    classes = [incident.name for incident in sample.incidents]
    return FinishedRun(
        run=sample,
        result=_RESULTS[sample.outcome],
        classes=classes,
        exit_code=sample.exit_code,
        error=error,
        error_details={"repeat": {"arm": sample.arm, "block": sample.block}},
        evaluating_s=evaluating_s,
    )


_RESULTS: Final[Mapping[RepeatOutcome, Result]] = {
    "clean": "clean",
    "survived": "crash",
    "lost": "crash",
    "void": "void",
    "invalid": "invalid",
}
MOST_POINTS: Final = 100
# Growth over fewer steps is noise: the figure is for 1,000.
_LEAST_STEPS: Final = 100
# share of the steps between two starts: caches fill, and the first mining round is done
WARM_UP: Final = 0.25
_MB: Final = 1e6


def read_sample(
    cell: Cell, run: Path, code: int, error: Mapping[str, Any] | None, began: float, wall_s: float
) -> Sample:
    """`began`: Unix time of the process start; `error`: from its --json."""
    record = RunRecord(run)
    incidents, lost_steps = _incidents(record)
    outcome = _outcome(code, record.incidents())
    summary = record.summary()
    whole = summary if outcome in ("clean", "survived") else Summary()
    steps, evaluated, loss = _metrics(record, began)
    if outcome == "lost" and not incidents:  # the supervisor died too
        incidents = (RepeatIncident(name="unknown", process="supervisor", step=steps),)
    memory = list(_memory(record))
    return Sample(
        arm=cell.arm,
        block=cell.block,
        position=cell.position,
        seed=cell.seed,
        outcome=outcome,
        exit_code=code,
        reason=str((error or {}).get("message", "")).strip() if code else "",
        incidents=incidents,
        steps=max(summary.get("steps", 0) + lost_steps, steps),
        wall_s=round(wall_s, 3),
        samples_per_s=_positive(whole.get("samples_per_s")),
        peak_anon_mb=_positive(whole.get("peak_anon_mb")),
        memory_slope_mb_per_1k_steps=slope(memory) if whole else None,
        metrics=whole.get("metrics_last", {}),
        evaluated=evaluated,
        loss=loss,
        memory=thinned([(t - began, mb) for t, _, mb in memory], max),
        weights_sha256=whole.get("weights_sha256") or "",
        exact=whole.get("exact"),
    )


def _outcome(code: int, filed: Sequence[FiledIncident]) -> RepeatOutcome:
    """A SIGKILL whose sender is unknown is data: a memory guard outside may kill one arm only.

    A signal to the study itself ends the study, and its repeat is not recorded.
    """
    sigkilled = [i for i in filed if i["class"] == "killed" and i.get("signal") == signal.SIGKILL]
    others = [found["class"] for found in filed if found not in sigkilled]
    result = result_of(code, others)
    if result == "clean" and sigkilled:
        result = "crash"
    if result == "crash":
        return "survived" if code == 0 else "lost"
    return result


def _incidents(record: RunRecord) -> tuple[tuple[RepeatIncident, ...], int]:
    """The incidents, and the steps that were lost: repeated or never saved."""
    filed = record.incidents()
    lost = sum(found.get("lost_steps") or 0 for found in filed)
    incidents = (
        RepeatIncident(name=found["class"], process=found["process"], step=found.get("step") or 0)
        for found in filed
    )
    return tuple(incidents), lost


def _metrics(record: RunRecord, began: float) -> tuple[int, tuple[EvalPoint, ...], Curve]:
    """The last step, the evaluations, the curve of the loss."""
    loss: list[tuple[float, float]] = []
    evaluated = []
    for line in record.metrics():
        if "step" not in line:
            continue
        step = line["step"]
        if line["type"] == "step" and "loss" in line:
            loss.append((float(step), float(line["loss"])))
        elif line["type"] == "eval":
            seconds = round(line.get("time", began) - began, 3)
            metrics = line.get("metrics", {})
            evaluated.append(EvalPoint(step=step, seconds=seconds, metrics=metrics))
    last = int(loss[-1][0]) if loss else 0
    return last, tuple(evaluated), thinned(loss, statistics.fmean)


def evaluating_seconds(run: Path) -> float:
    """Evaluations during the training, without those before and after it."""
    lines = RunRecord(run).metrics()
    seconds = [line["seconds"] for line in lines if line["type"] == "eval" and "seconds" in line]
    return sum(seconds[1:-1])


def _memory(record: RunRecord) -> Iterator[tuple[float, int, float]]:
    """(Unix time, steps done, anonymous and shared megabytes)"""
    for line in record.memory():
        if {"time", "step", "anon", "shared"} <= line.keys():
            yield line["time"], line["step"], (line["anon"] + line["shared"]) / _MB


def slope(memory: Sequence[tuple[float, int, float]]) -> float | None:
    """Megabytes per 1,000 steps: the slope of Theil and Sen over the longest stretch without a
    restart, without its first quarter. None if this is too short."""
    stretches: list[list[tuple[float, float]]] = [[]]
    for _, step, megabytes in memory:
        if stretches[-1] and step < stretches[-1][-1][0]:
            stretches.append([])
        stretches[-1].append((float(step), megabytes))
    longest = max(stretches, key=lambda s: s[-1][0] - s[0][0] if s else 0.0)
    if not longest or longest[-1][0] - longest[0][0] < _LEAST_STEPS:
        return None
    first, last = longest[0][0], longest[-1][0]
    settled = [point for point in longest if point[0] > first + WARM_UP * (last - first)]
    found = theil_sen(settled)
    return None if found is None else round(1000 * found, 6)


def thinned(points: Sequence[tuple[float, float]], of: Callable[[Sequence[float]], float]) -> Curve:
    """At most `MOST_POINTS`, each for equally many neighbours: the last x, and `of` their values."""
    size = max(1, math.ceil(len(points) / MOST_POINTS))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return tuple((round(g[-1][0], 3), round(of([y for _, y in g]), 6)) for g in groups)


def _positive(value: float | None) -> float | None:
    return float(value) if value is not None and value > 0 else None
