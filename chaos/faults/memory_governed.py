"""memory.limit on a run that takes more than 2 GB, most of it rows read ahead: the same weights inside
half of that, and while another program takes memory and the limit is cut."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.memorygroup import MemoryGroup, memory_group, why_not
from chaos.running import Place, Running, wait_until
from chaos.verdict import Verdict, incidents, judge_leftovers, last_words, summary_of
from chaos.world import records

LEAST_MB: Final = 2000
"""What the run without a limit holds at least."""
_STEPS: Final = 60
_LONGEST_S: Final = 600.0
# Windows over a context: reading them is a copy in memory, so the queue of rows fills up.
_DATA: Final = """
import sys
import numpy as np
rng = np.random.default_rng(2)
rows, pairs, length, dim = 4000, 3000, 100, 768
vectors = rng.standard_normal((rows, dim), dtype=np.float32)
np.savez(sys.argv[1] + "/context.npz", vectors=vectors)
starts = rng.integers(0, rows - length - 1, pairs)
windows = (starts[:, None] + np.arange(length)).astype(np.int32)
np.savez(
    sys.argv[1] + "/pairs.npz",
    seq_train=windows[:-64], seq_val=windows[-64:],
    pos_train=starts[:-64] + length, pos_val=starts[-64:] + length,
)
"""
# Takes so many bytes within two seconds, holds it, and ends.
_HOG: Final = """
import sys, time
held = []
for _ in range(20):
    held.append(bytearray(b"x") * (int(sys.argv[1]) // 20))
    time.sleep(0.1)
time.sleep(8)
"""


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    free = case.world.once("without memory.limit", lambda: _free(case))
    verdict.require(free["peak_anon_mb"] >= LEAST_MB, f"it holds only {free['peak_anon_mb']} MB")
    half = int(free["peak_anon_mb"] / 2 * 1e6)
    kind = ("cgroup", "RLIMIT_DATA", "hog and cut")[case.number % 3]
    verdict.phases[kind] += 1
    verdict.deaths = 1
    if kind == "cgroup":
        with memory_group(half) as group:
            _train(case, verdict, place, prefix=group.prefix)
            verdict.require(group.kills == 0, f"the kernel killed {group.kills}")
    elif kind == "RLIMIT_DATA":
        limited = f'ulimit -d {half >> 10} && exec "$@"'
        _train(case, verdict, place, prefix=("sh", "-c", limited, "sh"))
    else:
        _hog_and_cut(case, verdict, place, int(1.4 * free["peak_anon_mb"] * 1e6))
    _judge(verdict, place, free, kind)
    return verdict


def _train(case: Case, verdict: Verdict, place: Place, prefix: tuple[str, ...]) -> None:
    with Running(place, [*_words(case, place.run), *_LIMITED], prefix=prefix) as running:
        code = running.ended(_LONGEST_S)
    verdict.finished = code == 0


def _hog_and_cut(case: Case, verdict: Verdict, place: Place, limit: int) -> None:
    with memory_group(limit) as group:
        words = [*_words(case, place.run), *_LIMITED]
        with Running(place, words, prefix=group.prefix) as running:
            running.when(lambda flight: flight.step >= 6, _LONGEST_S)
            hog = [*group.prefix, sys.executable, "-c", _HOG, str(limit // 3)]
            subprocess.run(hog, check=True)
            time.sleep(1)
            cut = wait_until(lambda: running.over or _is_cut(group, limit * 2 // 3), 60)
            verdict.require(cut and not running.over, "the limit was not cut in mid-run")
            verdict.finished = running.ended(_LONGEST_S) == 0
        verdict.require(group.kills == 0, f"the kernel killed {group.kills}")


def _is_cut(group: MemoryGroup, limit: int) -> bool:
    return group.limit(limit)


def _judge(verdict: Verdict, place: Place, free: dict[str, Any], kind: str) -> None:
    if not verdict.require(verdict.finished, f"not finished: {last_words(place)}"):
        return
    summary = summary_of(place)
    verdict.equal = summary["weights_sha256"] == free["weights_sha256"]
    verdict.require(verdict.equal, "other weights")
    verdict.require(summary["exact"], f"not exact: {summary['deviations']}")
    found = incidents(place)
    verdict.require(not found, f"incidents {[i['class'] for i in found]}")
    decisions = [r for r in records(place.run) if r["type"] == "memory"]
    acts = [r["what"] for r in decisions if r["what"] in ("shrink", "grow")]
    turns = sum(a != b for a, b in itertools.pairwise(acts))
    if kind == "hog and cut":
        verdict.require("shrink" in acts, "it did not give way")
        verdict.require(turns <= 3, f"it oscillates: {acts}")
    verdict.saw(**{
        f"MB held ({kind})": summary["peak_anon_mb"],
        f"times the time without a limit ({kind})": summary["wall_s"] / free["wall_s"],
        f"decisions ({kind})": float(len(acts)),
        "MB held without a limit": free["peak_anon_mb"],
    })  # fmt: skip
    judge_leftovers(verdict, place)


def _free(case: Case) -> dict[str, Any]:
    place = Place(root=case.world.folder / "without-limit")
    with Running(place, _words(case, place.run)) as running:
        if running.ended(_LONGEST_S):
            raise RuntimeError(f"the run without a limit failed: {last_words(place)}")
    return summary_of(place)


_LIMITED: Final = ("--set", "memory.limit='100%'")


def _words(case: Case, run: Path) -> list[str]:
    data = case.world.once("windows of a context", lambda: _data(case))
    words = ["train", "--pairs", str(data / "pairs.npz"), "--bank", str(data / "context.npz")]
    words += ["--context", str(data / "context.npz")]
    words += ["--out", str(run), "--steps", str(_STEPS), "--batch-size", "256", "--tower", "gru"]
    words += ["--threads", "1", "--device", "cpu", "--memory-bank", "0"]
    for setting in (
        *("tower.query.hidden=64", "tower.query.dropout=0.1", "memory.read_ahead=24"),
        *("miner.negatives=0", "evaluate.every='end'", "calibrate.enabled=false"),
    ):
        words += ["--set", setting]
    return words


def _data(case: Case) -> Path:
    folder = case.world.folder / "windows"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _DATA, str(folder)], check=True)
    return folder


FAULT: Final = Fault(
    name="memory-governed",
    title="half the memory (cgroup, RLIMIT_DATA); a hog, then a limit cut by a third: equal weights",
    runs=3,
    quick=0,
    run=run,
    why_not=why_not,
    alone=True,
)
