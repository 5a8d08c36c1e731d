"""What it costs an undisturbed run that it cannot be lost.

Arm A: `ttf train`: supervisor, flight recorder, memory guard, isolated miner, a checkpoint every
30 s. Arm B: `ttf train --in-process --isolation none` without checkpoints until the end. Runs
alternate A B B A; samples/s is taken between the 5th and the last step by an observer that both arms
have, so that starting up does not count and mining rounds, checkpoints and evaluations in between
do. Printed: the paired ratio B/A of samples/s, its median and 95% bootstrap bounds.

    python benchmarks/bench_supervision.py --shape gru --pairs 8    # about 70 s a run: 20 minutes
    python benchmarks/bench_supervision.py --shape mlp --pairs 8
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ttf.data.synth import write_synth

SHAPES: dict[str, dict[str, Any]] = {
    "gru": {
        "data": {"pairs": 4096, "val": 64, "seq_len": 100, "dim": 768, "bank": 20_000},
        "words": "--tower gru --batch-size 32 --set tower.query.hidden=512 --set miner.refresh=20",
        "steps": 60,
    },
    "mlp": {
        "data": {"pairs": 20_000, "val": 64, "seq_len": 1, "dim": 384, "bank": 20_000},
        "words": "--tower mlp --batch-size 1024 --set tower.query.hidden=1024 "
        "--set miner.refresh=200",
        "steps": 1000,
    },
}
FIRST_STEP = 5
WATCH = """
import os, time
from ttf import hookimpl

@hookimpl
def ttf_step(record):
    with open(os.environ["BENCH_STEPS"], "a") as file:
        file.write(f"{record.step} {time.perf_counter()}\\n")
"""


def observer(folder: Path) -> None:
    """A plugin that writes down when each step ended."""
    info = folder / "bench_watch-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-watch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ttf.v1]\nobserver.bench = bench_watch\n")
    (folder / "bench_watch.py").write_text(WATCH)


def samples_per_s(folder: Path, words: list[str], arm: str, number: int) -> float:
    """One whole run."""
    steps = folder / f"{arm}-{number}.txt"
    guarded = ["--set", "checkpoint.every_s=30"]
    bare = ["--in-process", "--isolation", "none", "--set", "checkpoint.every_s=none"]
    subprocess.run(
        [
            *(sys.executable, "-m", "ttf", "train", *words),
            *("--out", str(folder / f"run-{arm}-{number}")),
            *(guarded if arm == "A" else bare),
        ],
        env=os.environ
        | {"BENCH_STEPS": str(steps), "PYTHONPATH": str(folder / "site"), "NO_PROGRESS": "1"},
        check=True,
        capture_output=True,
    )
    lines = [line.split() for line in steps.read_text().splitlines()]
    times = {int(step): float(when) for step, when in lines}
    last = max(times)
    return (last - FIRST_STEP) / (times[last] - times[FIRST_STEP])


def bounds(ratios: list[float]) -> tuple[float, float, float]:
    """(median, lower, upper 95%) by bootstrap over pairs."""
    values = np.array(ratios)
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="mlp")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        observer(folder / "site")
        paths = write_synth(folder / "data", seed=0, **shape["data"])
        words = [
            *("--pairs", str(paths["pairs"]), "--bank", str(paths["bank"])),
            *("--steps", str(given.steps or shape["steps"]), "--miner", "exact"),
            *("--set", "evaluate.every='end'", "--set", "observers=['bench']"),
            *str(shape["words"]).split(),
        ]
        rates: dict[str, list[float]] = {"A": [], "B": []}
        for pair in range(given.pairs):
            for arm in "AB" if pair % 2 == 0 else "BA":
                rates[arm].append(samples_per_s(folder, words, arm, pair))
            a, b = rates["A"][-1], rates["B"][-1]
            print(f"pair {pair}: A {a:.3f}, B {b:.3f} steps/s, B/A {b / a:.4f}", flush=True)
        ratios = [b / a for a, b in zip(rates["A"], rates["B"], strict=True)]
        median, low, high = bounds(ratios)
        print(f"{given.shape}: the bare run is {median:.4f} times as fast")
        print(f"95% of medians {low:.4f}..{high:.4f}; {given.pairs} pairs, {os.cpu_count()} cpus")


if __name__ == "__main__":
    main()
