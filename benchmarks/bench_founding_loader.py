"""The founding report's own loader under 4 GB, and the same work here.

Batches of 512 sequences, chunks of 1,024, eight workers, caches of 1 GB + 256 MB + 512 MB in each:
`founding_loader.py`, a plain DataLoader script. It runs in a control group of 4 GB under
`ttf guard`, then `ttf train` with the same data, tower, batch and number of steps in such a group, and then
the script without a limit that it meets. Needs root for control groups of version 1, about 12 GB of free memory, and 1 GB
of disk. Ten minutes on two busy cores. 1,200 samples, which fit into the caches of each worker.

Bars: the script is killed in the group, and guard says by what; ours finishes there, and sooner than the
script without a limit. Exit code 1 if one is missed.

    python benchmarks/bench_founding_loader.py --work DIR
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ttf.host.plugins import open_store

GROUPS: Final = Path("/sys/fs/cgroup/memory")
LIMIT: Final = 4 << 30
# For the run without a limit: others live on this machine too.
ROOM: Final = 12 << 30
PAIRS: Final = ("--pairs", "1200", "--val", "64", "--seq-len", "100", "--dim", "768")
CACHE: Final = "370MB"  # of a worker, which has room for 1,792 MiB: all 1,200 samples
SCRIPT: Final = Path(__file__).with_name("founding_loader.py")


def data(folder: Path) -> Path:
    """The same arrays for both: `pairs.npz`, `bank.npz`, and as .npy."""
    made = folder / "data"
    if not (made / "targets.npy").exists():
        words = [sys.executable, "-m", "ttf", "data", "synth", "--out", str(made), *PAIRS]
        words += ["--bank", "5000", "--seed", "1"]
        subprocess.run(words, check=True, capture_output=True)
        pairs, bank = (open_store(str(made / f"{n}.npz"), "auto") for n in ("pairs", "bank"))
        queries = pairs.source("X_train")
        np.save(made / "queries.npy", queries.read(0, queries.shape[0]))
        if "Y_train" in pairs.names():
            rows = pairs.source("Y_train").read(0, queries.shape[0])
        else:
            positives = pairs.source("pos_train").read(0, queries.shape[0]).reshape(-1)
            rows = bank.source("vectors").gather(positives.astype(np.int64))
        np.save(made / "targets.npy", rows)
    return made


def in_group(words: Sequence[str], limit: int, output: Path) -> tuple[int, float, int]:
    """(exit code, seconds, kills by the kernel) of a command in a memory group of its own."""
    group = GROUPS / f"ttf-bench-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        began = time.perf_counter()
        with output.open("w") as file:
            done = subprocess.run(
                ["sh", "-c", script, "sh", *words],
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=1200,
                check=False,
            )
        seconds = time.perf_counter() - began
        control = (group / "memory.oom_control").read_text().splitlines()
        kills = next(int(line.split()[1]) for line in control if line.startswith("oom_kill "))
        return done.returncode, seconds, kills
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    for _ in range(200):
        try:
            group.rmdir()
            return
        except OSError:  # its last processes and pages
            time.sleep(0.1)
    group.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    work: Path = args.work
    work.mkdir(parents=True, exist_ok=True)
    made = data(work)
    script = [sys.executable, str(SCRIPT), str(made / "queries.npy"), str(made / "targets.npy")]
    script += ["--steps", str(args.steps)]
    ttf = [sys.executable, "-m", "ttf"]
    asked = [
        "--loader",
        str(SCRIPT),
        "--loader",
        f"num_workers=8 sample=100x768 cache={CACHE}",
        "-v",
    ]
    in_group([*ttf, "doctor", *asked], LIMIT, work / "doctor.txt")
    print((work / "doctor.txt").read_text())
    print("1. the script under ttf guard, 4 GB", flush=True)
    guarded = [*ttf, "guard", "--out", str(work / f"guard-{os.getpid()}"), "--", *script]
    killed = in_group(guarded, LIMIT, work / "guarded.txt")
    print(f"   exit code {killed[0]}, {killed[1]:.0f} s, {killed[2]} kills")
    said = (work / "guarded.txt").read_text().splitlines()
    print("\n".join(f"   {line}" for line in said if line.startswith("ttf guard:")), flush=True)
    print("2. ttf train, 4 GB", flush=True)
    run = work / f"run-{os.getpid()}"
    words = [*ttf, "train", "--pairs", str(made / "pairs.npz"), "--bank", str(made / "bank.npz")]
    words += ["--out", str(run), "--tower", "gru", "--set", "tower.query.hidden=128"]
    words += ["--batch-size", "512", "--steps", str(args.steps), "--threads", "2"]
    words += ["--memory-bank", "0", "--set", "miner.negatives=0", "--set", "memory.limit='100%'"]
    words += ["--set", "tower.query.dropout=0.0", "--set", "calibrate.enabled=false"]
    ours = in_group([*words, "--set", "evaluate.every='end'"], LIMIT, work / "ours.txt")
    print(f"   exit code {ours[0]}, {ours[1]:.0f} s, {ours[2]} kills")
    summary = json.loads((run / "summary.json").read_text())
    print(f"   held {summary['peak_anon_mb']:.0f} MB, restarts {summary['restarts']}")
    print("3. the script, 12 GB", flush=True)
    free = in_group(script, ROOM, work / "free.txt")
    print(f"   exit code {free[0]}, {free[1]:.0f} s, {free[2]} kills", flush=True)
    met = {
        "the script is killed in 4 GB": killed[2] > 0 and killed[0] != 0,
        "guard says which memory grew": any("Memory that grew" in line for line in said),
        "ours finishes in 4 GB": ours[0] == 0 and ours[2] == 0,
        "and sooner than the script without a limit": ours[1] < free[1],
    }
    for what, holds in met.items():
        print(f"{'met   ' if holds else 'MISSED'} {what}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
