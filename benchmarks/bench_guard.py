"""What it costs a training script to be guarded.

Arm A: `ttf guard --memory-limit 64G --hang-timeout 600 -- python loop.py`; arm B: `python loop.py`,
a torch loop of about ten seconds that times itself, so that starting up does not count. Runs
alternate A B B A. Printed: the paired ratio A/B of the loop's time, its median and 95% bootstrap
bounds, and the load of the machine meanwhile.

    python benchmarks/bench_guard.py --pairs 8     # about three minutes
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LOOP = """
import sys, time
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512))
optimizer = torch.optim.AdamW(model.parameters())
rows = torch.randn(256, 512)
def step():
    loss = (model(rows) - rows).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
for _ in range(20):
    step()
began = time.perf_counter()
for number in range(int(sys.argv[1])):
    loss = step()
    if number % 50 == 0:
        print(f"step {number} loss {loss:.4f}", file=sys.stderr, flush=True)
print(time.perf_counter() - began)
"""
GUARD = ["-m", "ttf", "guard", "--memory-limit", "64G", "--hang-timeout", "600", "--"]


def seconds(folder: Path, steps: int, *, guarded: bool) -> float:
    """One run of the loop, by its own clock."""
    words = [sys.executable, *(GUARD if guarded else []), *([sys.executable] if guarded else [])]
    done = subprocess.run(
        [*words, str(folder / "loop.py"), str(steps)], cwd=folder, capture_output=True, check=True
    )
    return float(done.stdout)


def bounds(ratios: list[float]) -> tuple[float, float, float]:
    """(median, lower, upper 95%) by bootstrap over pairs."""
    values = np.array(ratios)
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.py").write_text(LOOP)
        steps = max(50, int(200 * given.seconds / seconds(folder, 200, guarded=False)))
        ratios = []
        for pair in range(given.pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            times = {guarded: seconds(folder, steps, guarded=guarded) for guarded in order}
            ratios.append(times[True] / times[False])
            print(
                f"pair {pair + 1}: guarded {times[True]:.3f} s, bare {times[False]:.3f} s, "
                f"ratio {ratios[-1]:.4f}, load {os.getloadavg()[0]:.2f}",
                flush=True,
            )
    median, low, high = bounds(ratios)
    print(
        f"guarded / bare: {median:.4f} [{low:.4f}, {high:.4f}], {given.pairs} pairs of {steps} steps"
    )


if __name__ == "__main__":
    main()
