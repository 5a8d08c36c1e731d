"""What a trainer's start costs beyond importing torch: deterministic algorithms and an optimizer.

Processes take turns; the first arm does what torch's documentation says, the second what ttf does
(`device.cpu`'s policy and `ttf.training.optimizer`), the third only imports torch.

    python benchmarks/bench_start.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from statistics import median

from ttf.tools.bench.paired import in_turns, ratio

_STEP = """
model(torch.ones(2, 8)).sum().backward()
optimizer.step()
optimizer.zero_grad()
"""
ARMS = {
    "as documented": f"""
import torch
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
{_STEP}""",
    "ttf": f"""
from ttf.machine import devices
policy = devices.choose("cpu")
devices.prepare(policy)
import torch
policy.start()
from ttf.training.optimizer import PlainAdamW
model = torch.nn.Linear(8, 8)
optimizer = PlainAdamW(model.parameters(), fused=True)
{_STEP}""",
    "import torch": "import torch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    seconds = in_turns({name: partial(_run, code) for name, code in ARMS.items()}, given.repeats)
    for name, taken in seconds.items():
        print(f"{name:<14} {median(taken):.3f} s ({min(taken):.3f} to {max(taken):.3f})")
    print(f"times as fast: {ratio(seconds['as documented'], seconds['ttf'])}")
    print(f"share of importing torch: {ratio(seconds['import torch'], seconds['ttf'])}")


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


if __name__ == "__main__":
    main()
