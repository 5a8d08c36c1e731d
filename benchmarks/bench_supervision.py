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
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ttf.data.synth import write_synth
from ttf.lifeline import is_stopped

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


@dataclass
class Arm:
    """One run that is suspended and continued from outside."""

    name: str
    process: subprocess.Popen[bytes]
    steps: Path
    stop_signal: signal.Signals
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """When it was suspended: from, until."""
    _since: float = 0.0

    def suspend(self) -> None:
        os.kill(self.process.pid, self.stop_signal)
        while self.process.poll() is None and not is_stopped(self.process.pid):
            time.sleep(0.001)
        self._since = time.monotonic()

    def go_on(self) -> None:
        self.gaps.append((self._since, time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def times(self) -> dict[int, float]:
        """When each step ended, by a clock that stands while it is suspended."""
        lines = [line.split() for line in self.steps.read_text().splitlines()]
        return {int(step): self._own_time(float(when)) for step, when in lines}

    def _own_time(self, when: float) -> float:
        return when - sum(until - since for since, until in self.gaps if until <= when)


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


def run_in_turns(arms: list[Arm]) -> None:
    """Until all are over; the first to be suspended starts as such once it trains."""
    for arm in arms:
        while not arm.over and not arm.steps.exists():
            time.sleep(0.05)
        arm.suspend()
    turn = 0
    while not all(arm.over for arm in arms):
        arm = arms[turn % len(arms)]
        turn += 1
        if arm.over:
            continue
        arm.go_on()
        with contextlib.suppress(subprocess.TimeoutExpired):
            arm.process.wait(SLICE_S)
        if not arm.over:
            arm.suspend()


def bounds(ratios: list[float]) -> tuple[float, float, float]:
    """(median, lower, upper 95%) by bootstrap over blocks."""
    values = np.array(ratios)
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


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
        paths = write_synth(folder / "data", seed=0, **shape["data"])
        words = [
            *("--pairs", str(paths["pairs"]), "--bank", str(paths["bank"])),
            *("--steps", str(block * (blocks + 1)), "--miner", "exact"),
            *("--set", f"miner.refresh={block}", "--set", "evaluate.every='end'"),
            *("--set", "observers=['bench']", *str(shape["words"]).split()),
        ]
        arms = [start(folder, name, words) for name in "AB"]
        try:
            run_in_turns(arms)
            report(given.shape, block, blocks, arms)
        finally:
            for arm in arms:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(arm.process.pid, signal.SIGKILL)


def report(shape: str, block: int, blocks: int, arms: list[Arm]) -> None:
    ends = [arm.times() for arm in arms]
    ratios = []
    for number in range(1, blocks + 1):  # the first block has the start in it
        taken = [times[(number + 1) * block] - times[number * block] for times in ends]
        ratios.append(taken[0] / taken[1])
        speeds = ", ".join(f"{a.name} {block / t:.3f}" for a, t in zip(arms, taken, strict=True))
        print(f"block {number}: {speeds} steps/s, B/A {ratios[-1]:.4f}")
    median, low, high = bounds(ratios)
    print(f"{shape}: the bare run is {median:.4f} times as fast")
    print(f"95% of medians {low:.4f}..{high:.4f}; {blocks} blocks, {os.cpu_count()} cpus")


if __name__ == "__main__":
    main()
