"""What it costs a training script to be guarded.

Arm A: `ttf guard --memory-limit 64G --hang-timeout 600 -- python loop.py`; arm B: `python loop.py`,
a torch loop of about ten seconds that times itself, so that starting up does not count. Runs
alternate A B B A. Printed: the paired ratio A/B of the loop's time, its median and 95% bootstrap
bounds, the load of the machine meanwhile, and the share of one processor that the guard itself used
during the loop, which does not depend on the load (Linux).

    python benchmarks/bench_guard.py --pairs 8     # about three minutes
    python benchmarks/bench_guard.py --output file    # or pipe: prints each step there, as with tee
    python benchmarks/bench_guard.py --output pipe --prints 1000    # plain Python, a line every 1 ms

With `--output`, the loop prints a line for each step to standard output, and standard error goes to
the same place: a file, or a pipe to `cat > file`. Then the guarded Python prints at once, and keeps a
copy of what goes into a pipe; both are in the ratio.

One process of the same loop is up to 5% faster or slower than the next for all its life (measured,
also with two of them in turns of 4 s): the ratio of a few pairs cannot show less than that. The
guard's own processor time can.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

LOOP = """
import os, sys, time
import torch
def parents_cpu():
    with open(f"/proc/{os.getppid()}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9
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
began, cpu, own = time.perf_counter(), parents_cpu(), time.process_time()
for number in range(int(sys.argv[1])):
    loss = step()
    if len(sys.argv) > 3:
        print(f"step {number} loss {loss:.4f}")
    elif number % 50 == 0:
        print(f"step {number} loss {loss:.4f}", file=sys.stderr, flush=True)
with open(sys.argv[2], "w") as file:
    print(time.perf_counter() - began, parents_cpu() - cpu, time.process_time() - own, file=file)
"""
PRINTS = """
import sys, time
def parents_cpu():
    with open(f"/proc/{__import__('os').getppid()}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9
work = int(float(sys.argv[4]) * 25)
began, cpu, own = time.perf_counter(), parents_cpu(), time.process_time()
for number in range(int(sys.argv[1])):
    total = 0
    for value in range(work):
        total += value
    print(f"step {number} loss {total}")
with open(sys.argv[2], "w") as file:
    print(time.perf_counter() - began, parents_cpu() - cpu, time.process_time() - own, file=file)
"""
GUARD = ["-m", "ttf", "guard", "--memory-limit", "64G", "--hang-timeout", "600", "--"]


def measured(
    folder: Path, steps: int, output: str, between_us: float, *, guarded: bool
) -> tuple[float, float, float]:
    """One run of the loop: seconds by its own clock, of its parent's and of its own processor time."""
    words = [sys.executable, *(GUARD if guarded else []), *([sys.executable] if guarded else [])]
    words += [str(folder / "loop.py"), str(steps), "times", *([output] if output else [])]
    words += [str(between_us)] if between_us else []
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    if output == "pipe":
        words = ["bash", "-o", "pipefail", "-c", '"$@" 2>&1 | cat > log', "bash", *words]
    with (folder / "log").open("wb") as log:
        said = log if output == "file" else subprocess.DEVNULL
        subprocess.run(words, cwd=folder, env=buffered, stdout=said, stderr=said, check=True)
    elapsed, cpu, own = map(float, (folder / "times").read_text().split())
    return elapsed, cpu, own


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
    parser.add_argument("--output", choices=["file", "pipe"], default="")
    parser.add_argument(
        "--prints", type=float, default=0.0, metavar="US", help="plain Python, a line every US"
    )
    given = parser.parse_args()
    if given.prints and not given.output:
        parser.error("--prints needs --output")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.py").write_text(PRINTS if given.prints else LOOP)
        arm = partial(measured, folder, output=given.output, between_us=given.prints)
        steps = max(50, int(200 * given.seconds / arm(steps=200, guarded=False)[0]))
        ratios, shares, own, more_us = [], [], [], []
        for pair in range(given.pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            runs = {guarded: arm(steps=steps, guarded=guarded) for guarded in order}
            (guarded, cpu, busy), (bare, _, busy_bare) = runs[True], runs[False]
            own.append(busy / busy_bare)
            more_us.append((busy - busy_bare) / steps * 1e6)
            ratios.append(guarded / bare)
            shares.append(cpu / guarded)
            print(
                f"pair {pair + 1}: guarded {guarded:.3f} s, bare {bare:.3f} s, ratio "
                f"{ratios[-1]:.4f}, of its processor time {own[-1]:.4f}, guard {shares[-1]:.3%} of a processor, load "
                f"{os.getloadavg()[0]:.2f}",
                flush=True,
            )
    median, low, high = bounds(ratios)
    print(
        f"guarded / bare: {median:.4f} [{low:.4f}, {high:.4f}], {given.pairs} pairs of {steps} steps"
    )
    median, low, high = bounds(own)
    print(f"processor time of the command: {median:.4f} [{low:.4f}, {high:.4f}]")
    median, low, high = bounds(more_us)
    print(f"more processor time for each step or line: {median:.2f} us [{low:.2f}, {high:.2f}]")
    print(f"the guard itself: {np.median(shares):.3%} of one processor")


if __name__ == "__main__":
    main()
