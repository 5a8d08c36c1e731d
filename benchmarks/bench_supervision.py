"""What it costs an undisturbed run that it cannot be lost.

Arm A: `ttf train`: supervisor, flight recorder, memory guard, isolated miner, a checkpoint every
30 s. Arm B: `ttf train --in-process --isolation none` without checkpoints until the end. Both train
the same steps side by side, but never at once: every few seconds one is suspended (as by Ctrl-Z) and
the other goes on, so that a machine that slows down slows both. Waking up is counted as A's work:
what is measured is a little more than what it costs. (Clocks go on while a run is suspended, half of
the time, so that every 60 s of the clock is every 30 s of its own.)

The time of each block of steps (one mining round each), suspensions taken off, is divided by that of
the same block in the other arm. Printed: the median of these ratios B/A of samples/s and its 95%
bootstrap bounds. The goal is at most 1.02 for the upper one.

    python benchmarks/bench_supervision.py --shape mlp     # ten minutes
    python benchmarks/bench_supervision.py --shape gru
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from turns import Arm, bounds, compared, run_in_turns

from ttf.data.synth import SynthShape, write_synth

SHAPES: dict[str, dict[str, Any]] = {
    "gru": {
        "data": {"pairs": 4096, "val": 64, "seq_len": 100, "dim": 768, "bank": 20_000},
        "words": "--tower gru --batch-size 32 --set tower.query.hidden=512",
        "block": 20,
        "blocks": 14,
    },
    "mlp": {
        "data": {"pairs": 20_000, "val": 64, "seq_len": 1, "dim": 384, "bank": 20_000},
        "words": "--tower mlp --batch-size 1024 --set tower.query.hidden=1024",
        "block": 150,
        "blocks": 24,
    },
}
SLICE_S = 8.0
GUARDED = ("--set", "checkpoint.every_s=60")
BARE = ("--in-process", "--isolation", "none", "--set", "checkpoint.every_s=none")
WATCH = """
import os, time
from ttf import hookimpl

@hookimpl
def ttf_step(record):
    with open(os.environ["BENCH_STEPS"], "a") as file:
        file.write(f"{record.step} {time.monotonic()}\\n")
"""


def observer(folder: Path) -> None:
    """A plugin that writes down when each step ended."""
    info = folder / "bench_watch-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-watch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ttf.v1]\nobserver.bench = bench_watch\n")
    (folder / "bench_watch.py").write_text(WATCH)


def start(folder: Path, name: str, words: list[str]) -> Arm:
    steps = folder / f"{name}.txt"
    site = str(folder / "site")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ttf", "train", *words, "--out", str(folder / f"run-{name}")),
            *(GUARDED if name == "A" else BARE),
        ],
        env=os.environ | {"BENCH_STEPS": str(steps), "PYTHONPATH": site},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Arm(name, process, steps, signal.SIGTSTP if name == "A" else signal.SIGSTOP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="mlp")
    parser.add_argument("--blocks", type=int)
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    block, blocks = shape["block"], given.blocks or shape["blocks"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        observer(folder / "site")
        paths = write_synth(folder / "data", SynthShape(seed=0, **shape["data"]))
        words = [
            *("--pairs", str(paths["pairs"]), "--bank", str(paths["bank"])),
            *("--steps", str(block * (blocks + 1)), "--miner", "exact"),
            *("--set", f"miner.refresh={block}", "--set", "evaluate.every='end'"),
            *("--set", "observers=['bench']", *str(shape["words"]).split()),
        ]
        arms = [start(folder, name, words) for name in "AB"]
        try:
            run_in_turns(arms, SLICE_S)
            report(given.shape, block, blocks, arms)
        finally:
            for arm in arms:
                arm.kill()


def report(shape: str, block: int, blocks: int, arms: list[Arm]) -> None:
    median, low, high = bounds(compared(arms, block, blocks))
    print(f"{shape}: the bare run is {median:.4f} times as fast")
    print(f"95% of medians {low:.4f}..{high:.4f}; {blocks} blocks, {os.cpu_count()} cpus")


if __name__ == "__main__":
    main()
