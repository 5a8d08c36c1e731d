"""What it costs a training script to be guarded.

Arm A: `ttf guard --memory-limit 64G --hang-timeout 600 -- python loop.py`; arm B: `python loop.py`, a
torch loop on all processors. They take turns of a few seconds (see turns.py). Printed: the time of
each block of steps, guarded over bare, the median and 95% bootstrap bounds of that, and the share of
one processor that the guard itself used while its loop ran (Linux), which no other load disturbs.

    python benchmarks/bench_guard.py     # about three minutes
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import Arm, bounds, compared, run_in_turns

LOOP = """
import os, sys, time
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512))
optimizer = torch.optim.AdamW(model.parameters())
rows = torch.randn(256, 512)
with open(sys.argv[1], "w", buffering=1) as file:
    for number in range(1, int(sys.argv[2]) + 1):
        loss = (model(rows) - rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        file.write(f"{number} {time.monotonic()}\\n")
        if number % 50 == 0:
            print(f"step {number} loss {loss:.4f}", file=sys.stderr, flush=True)
with open(f"/proc/{os.getppid()}/schedstat") as parent:
    print(int(parent.read().split()[0]) / 1e9, flush=True)
"""
GUARD = ("-m", "ttf", "guard", "--memory-limit", "64G", "--hang-timeout", "600", "--")
BLOCK = 300
SLICE_S = 4.0


def start(folder: Path, name: str, steps: int) -> Arm:
    words = [sys.executable, *([*GUARD, sys.executable] if name == "A" else [])]
    file = folder / f"{name}.txt"
    process = subprocess.Popen(
        [*words, str(folder / "loop.py"), str(file), str(steps)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=(folder / f"{name}.out").open("wb"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Arm(name, process, file, signal.SIGSTOP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=24)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.py").write_text(LOOP)
        arms = [start(folder, name, BLOCK * (blocks + 1)) for name in "AB"]
        try:
            run_in_turns(arms, SLICE_S)
            median, low, high = bounds(compared(arms, BLOCK, blocks))
            own_s = float((folder / "A.out").read_text())
            taken = max(arms[0].times().values()) - min(arms[0].times().values())
        finally:
            for arm in arms:
                arm.kill()
    print(f"guarded / bare: {median:.4f}")
    print(f"95% of medians {low:.4f}..{high:.4f}; {blocks} blocks, {os.cpu_count()} cpus")
    print(f"the guard itself: {own_s / taken:.3%} of one processor, its start included")


if __name__ == "__main__":
    main()
