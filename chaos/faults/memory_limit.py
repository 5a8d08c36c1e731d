"""Less memory than a step needs: the same optimizer step is cut into smaller micro-batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from chaos.campaign import Case, Fault
from chaos.memorygroup import memory_group, why_not
from chaos.running import Place, Running
from chaos.verdict import Verdict, incidents, judge_leftovers, last_words, summary_of
from chaos.world import ROOT, Reference, reference_of

STEPS: Final = 12
TOLERANCE: Final = 1e-3
"""Relative, of every loss: a step that is cut otherwise differs in rounding only."""
_LIMITS_MB: Final = (560, 720)
"""Between what a run needs at least and what one micro-batch of all samples needs."""
_BATCH: Final = 1536
_DATA: Final = ("--pairs", "2000", "--val", "64", "--seq-len", "96", "--dim", "32", "--bank", "500")
_CLASSES: Final = {"oom-kill", "memory-limit", "alloc-failure"}


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.world.once("ample memory", lambda: _ample(case))
    limit_mb = case.rng.randint(*_LIMITS_MB)
    with memory_group(limit_mb << 20) as group:
        with Running(place, _words(case, place.run), prefix=group.prefix) as running:
            code = running.ended()
        verdict.phases["killed by the kernel"] += group.kills
    found = incidents(place)
    verdict.deaths = len(found)
    verdict.phases.update(i["class"] for i in found)
    _judge(verdict, place, code, reference)
    verdict.incidents_right = bool(found) and {i["class"] for i in found} <= _CLASSES
    verdict.require(verdict.incidents_right, f"incidents {[i['class'] for i in found]}")
    if not verdict.ok:
        verdict.problems.append(f"the limit was {limit_mb} MiB")
    return verdict


def _judge(verdict: Verdict, place: Place, code: int, reference: Reference) -> None:
    summary = summary_of(place)
    verdict.finished = code == 0 and summary.get("status") == "finished"
    if verdict.require(verdict.finished, f"exit code {code}: {last_words(place)}"):
        losses = {step: loss for step, (loss, _) in reference_of(place.run).steps.items()}
        other = {
            step: (loss, losses.get(step))
            for step, (loss, _) in reference.steps.items()
            if abs(losses.get(step, 0.0) - loss) > TOLERANCE * loss
        }
        verdict.require(not other, f"other losses: {other}")
        told = not summary["exact"] and bool(summary["deviations"])
        verdict.require(told, "the summary does not say that the numbers may differ")
    judge_leftovers(verdict, place)


def _ample(case: Case) -> Reference:
    place = Place(root=case.world.folder / "ample")
    with Running(place, _words(case, place.run)) as running:
        if running.ended():
            raise RuntimeError(f"the run without a limit failed: {last_words(place)}")
    return reference_of(place.run)


def _words(case: Case, run: Path) -> list[str]:
    data = case.world.once("long sequences", lambda: _data(case))
    words = ["train", "--pairs", str(data / "pairs.npz"), "--bank", str(data / "bank.npz")]
    words += ["--out", str(run), "--steps", str(STEPS), "--batch-size", str(_BATCH)]
    words += ["--threads", "1", "--device", "cpu", "--memory-bank", "0", "--miner", "exact"]
    # Dropout is drawn for each micro-batch: without it, how a step is cut does not matter.
    for setting in ("tower.query.hidden=64", "tower.query.dropout=0.0", "miner.negatives=0"):
        words += ["--set", setting]
    return [*words, "--set", "checkpoint.every_steps=4", "--set", "evaluate.every='end'"]


def _data(case: Case) -> Path:
    folder = case.world.folder / "long-data"
    words = [sys.executable, "-m", "ttf", "data", "synth", "--out", str(folder)]
    subprocess.run([*words, *_DATA, "--seed", "2"], cwd=ROOT, check=True, capture_output=True)
    return folder


FAULT: Final = Fault(
    name="memory-limit",
    title="memory limit (cgroup) below need: smaller micro-batches, the same losses",
    runs=3,
    quick=1,
    run=run,
    why_not=why_not,
)
