"""The loop that speeds are compared with, on its own: plain fp32 PyTorch as users write it.

`nn.GRU`, a projection, unit length; the positives and a memory bank of 50,000 vectors concatenated
in each micro-batch; cross entropy; fused AdamW after 16 of them. Its code is `ttf.tools.bench.loops`, which
`ttf bench` uses as the peer `plain-torch` and which knows nothing of ttf.

    python benchmarks/reference_loop.py                     # L = 100, mean of all outputs
    python benchmarks/reference_loop.py --pool last
    python benchmarks/reference_loop.py --length 1
    python benchmarks/reference_loop.py --matmul medium     # what one line of torch changes
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.nn import functional

from ttf.tools.bench.loops import Contrast, HandLoop, PlainTower, Rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", choices=["mean", "last"], default="mean")
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--matmul", choices=["highest", "high", "medium"], default="highest")
    parser.add_argument("--micro-batches", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.set_float32_matmul_precision(given.matmul)
    torch.manual_seed(0)
    shape = (256, given.length, 768) if given.length > 1 else (256, 768)
    rows = Rows(
        x=torch.randn(*shape),
        y_ND=functional.normalize(torch.randn(256, 768), dim=-1),
        bank_MD=functional.normalize(torch.randn(50_000, 768), dim=-1),
    )
    tower = PlainTower(768, 512, 768, given.pool)
    loop = HandLoop(tower, Contrast(rows.bank_MD), rows, micro_batch=32, accumulate=16)
    loop.turn(2)
    seconds = []
    for _ in range(given.micro_batches):
        began = time.perf_counter()
        loop.turn(1)
        seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds)
    print(
        f"pool {given.pool}, L = {given.length}, matmul {given.matmul}: {median:.3f} s a micro-batch "
        f"({min(seconds):.3f} to {max(seconds):.3f}, n = {len(seconds)}), {32 / median:.0f} samples/s"
    )


if __name__ == "__main__":
    main()
