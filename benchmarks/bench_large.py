"""The 11 GB case: pairs of (35,904, 100, 768) float32 beside a bank of 771,115 x 768.

Two claims: opening the pairs takes under 50 ms and 5 MB; 200 steps with mining from the exact miner
peak under 1.5 GB of anonymous and shared memory in the process tree. The peak of summary.json is
set against this script's own reading of /proc/<pid>/status over the tree, ten times a second.
Needs 14 GB of disk for the files, which are kept for the next run.

    python benchmarks/bench_large.py --folder /some/disk/large
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

OPEN_ONCE = """
import os, sys, time
import numpy
from ttf.host import plugins
from ttf.host.plugins import open_store
plugins.usable("storage", "npz")

def resident(kind):
    for line in open("/proc/self/status"):
        if line.startswith(kind):
            return int(line.split()[1]) * 1024

before = [resident(k) for k in ("RssAnon", "VmRSS")]
began = time.perf_counter()
store = open_store(sys.argv[1])
source = store.source("X_train")
took = time.perf_counter() - began
after = [resident(k) for k in ("RssAnon", "VmRSS")]
print(1e3 * took, *((b - a) / 1e6 for a, b in zip(before, after)))
"""


def make(folder: Path) -> None:
    if (folder / "bank.npz").exists() and (folder / "pairs.npz").exists():
        return
    command = [sys.executable, "-m", "ttf", "data", "synth", "--out", str(folder)]
    command += ["--pairs", "35904", "--val", "256", "--seq-len", "100", "--dim", "768"]
    command += ["--bank", "771115", "--seed", "0"]
    subprocess.run(command, check=True)


def opening(folder: Path, repeats: int) -> str:
    rows = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", OPEN_ONCE, str(folder / "pairs.npz")],
            capture_output=True,
            text=True,
            check=True,
        )
        rows.append([float(v) for v in done.stdout.split()])
    ms, anon, rss = zip(*rows, strict=True)
    return (
        f"open: {statistics.median(ms):.1f} ms ({min(ms):.1f} to {max(ms):.1f}), "
        f"anonymous +{max(anon):.2f} MB, resident +{max(rss):.2f} MB at most, {repeats} processes"
    )


class Watcher(threading.Thread):
    """Sums RssAnon + RssShmem over a process tree; shared pages count in each process."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.1):
            self.peak = max(self.peak, self._now())

    def _now(self) -> int:
        try:
            root = psutil.Process(self.pid)
            tree = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return 0
        return sum(_held(process.pid) for process in tree)


def _held(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    wanted = [x for x in lines if x.startswith(("RssAnon", "RssShmem"))]
    return sum(int(x.split()[1]) * 1024 for x in wanted)


def training(folder: Path, steps: int, more: list[str]) -> str:
    out = folder / f"run-{int(time.time())}"
    command = [sys.executable, "-m", "ttf", "train", "--json", "--out", str(out)]
    command += ["--pairs", str(folder / "pairs.npz"), "--bank", str(folder / "bank.npz")]
    command += ["--steps", str(steps), "--miner", "exact", "--tower", "gru", *more]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as child:
        watcher = Watcher(child.pid)
        watcher.start()
        text, _ = child.communicate()
        watcher.done.set()
    summary = json.loads(text)
    return (
        f"train: {summary['status']}, {summary['steps']} steps of "
        f"{summary['samples'] // summary['steps']} in {time.perf_counter() - began:.0f} s, "
        f"{summary['samples_per_s']:.1f} samples/s, miner {summary['miner']}\n"
        f"peak anonymous + shared: summary.json {summary['peak_anon_mb']:.0f} MB, "
        f"/proc over the tree {watcher.peak / 1e6:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("large"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("more", nargs="*", help="further words for ttf train, after --")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    make(given.folder)
    print(opening(given.folder, 9), flush=True)
    print(training(given.folder, given.steps, given.more))


if __name__ == "__main__":
    main()
