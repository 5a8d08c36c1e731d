"""A mining round as a run asks for it: the best documents below the margins, of the 200 nearest.

wordnet-definitions, the vectors before training, a warm worker, files and checks included. The arms
take turns: the 200 nearest (until decision 0031), the 16 nearest, the 12 best below the margins, and
the bfloat16 product alone. Wants a quiet machine.

    python benchmarks/bench_round_below.py --data ../shared/data/wordnet-definitions
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from bench_exact import BUDGET, Product, written

from ttf.contracts import MinerContext
from ttf.data.vectors import unit_rows
from ttf.mining.job import MiningJob
from ttf.mining.worker_client import MinerWorkers
from ttf.tools.bench.paired import in_turns, ratio

MARGIN: Final = 0.05  # as negatives.relative_margin is by default
NEAREST: Final = 200
BLOCK: Final = (1024, 4096)
ARMS: Final = {"200 nearest": (200, False), "16 nearest": (16, False), "12 below": (12, True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=28_444)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bank = np.load(args.data / "bank.npz")["vectors"][: args.rows]
    pairs = np.load(args.data / "pairs.npz")
    chosen = np.flatnonzero(pairs["pos_train"] < args.rows)[: args.queries]
    queries = unit_rows(pairs["X_train"][chosen].astype(np.float32))
    documents = unit_rows(bank.astype(np.float32))
    positive = (queries * documents[pairs["pos_train"][chosen]]).sum(1)
    with tempfile.TemporaryDirectory() as temp, MinerWorkers(isolation="process", say=print) as run:
        folder = Path(temp)
        rows = written(folder / "rows.npz", bank)
        np.save(folder / "queries.npy", queries)
        np.save(folder / "ceilings.npy", positive - MARGIN * np.abs(positive))
        number = itertools.count()
        context = MinerContext(
            threads=args.threads, seed=0, deterministic=True, budget_bytes=BUDGET
        )

        def ask(k: int, below: bool) -> None:
            job = MiningJob(
                bank=rows,
                queries=str(folder / "queries.npy"),
                k=k,
                miner="exact",
                context=context,
                out=str(folder / f"found-{next(number)}"),
                cache=str(folder),
                ceilings=str(folder / "ceilings.npy") if below else None,
                k_nearest=NEAREST,
                within=NEAREST,
            )
            run.run(job, 600.0, lambda done, total: None)

        arms: dict[str, Callable[[], None]] = {
            name: partial(ask, k, below) for name, (k, below) in ARMS.items()
        }
        arms["product"] = Product(bank.astype(np.float32), queries, BLOCK, args.threads)
        seconds = in_turns(arms, args.repeats)
    print(f"{len(queries):,} queries x {bank.shape[0]:,} x {bank.shape[1]}")
    for name, taken in seconds.items():
        print(
            f"{name}: {np.median(taken):.2f} s, times the product: {ratio(taken, seconds['product'])}"
        )


if __name__ == "__main__":
    main()
