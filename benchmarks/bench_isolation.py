"""What the miner's own process costs: a request to a warm worker against the same search in-process.

    python benchmarks/bench_isolation.py [--rows 100000] [--dim 768] [--queries 10000] [--k 200]
        [--repetitions 9] [--miner exact faiss] [--json FILE]

Both arms are `MinerWorkers`, warm, with the same job; only `isolation` differs. They alternate, A B,
B A, ..., so that a machine that slows down slows both. Printed: the median of the paired ratios
(process / none) and the upper end of the 95% interval of that median (bootstrap over the pairs,
10,000 draws, one fixed seed). The goal is at most 1.03 at the default sizes.

Takes about ten minutes with the default sizes on two cores, and 0.4 GB of disk in TMPDIR.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import MinerContext
from ttf.data.sources import VectorRef
from ttf.mining.job import Isolation, MinerChoice, MiningJob
from ttf.mining.worker_client import MinerWorkers

ARMS: tuple[Isolation, Isolation] = ("none", "process")
DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Result:
    """The pairs of one miner, in seconds."""

    miner: str
    none_s: list[float]
    process_s: list[float]

    @property
    def ratios(self) -> list[float]:
        return [b / a for a, b in zip(self.none_s, self.process_s, strict=True)]

    def upper_bound(self) -> float:
        """Of the median of the ratios, one-sided 95%."""
        rng = np.random.default_rng(0)
        draws = rng.choice(self.ratios, size=(DRAWS, len(self.ratios)))
        return float(np.quantile(np.median(draws, axis=1), 0.95))

    def to_json(self) -> dict[str, object]:
        return {
            "miner": self.miner,
            "none_s": self.none_s,
            "process_s": self.process_s,
            "median_ratio": statistics.median(self.ratios),
            "upper_95": self.upper_bound(),
        }


def main(argv: Sequence[str] | None = None) -> None:
    options = _options().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-isolation-") as folder:
        job = _job(Path(folder), options)
        results = [_measure(job, miner, options.repetitions) for miner in options.miner]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads"
    shape = f"{options.queries:,} queries x {options.rows:,} x {options.dim}, k = {options.k}"
    print(f"\n{shape}; {machine}")
    print(f"{'miner':8} {'none':>9} {'process':>9} {'median ratio':>13} {'upper 95%':>10}")
    for result in results:
        print(
            f"{result.miner:8} {statistics.median(result.none_s):8.3f}s "
            f"{statistics.median(result.process_s):8.3f}s "
            f"{statistics.median(result.ratios):13.4f} {result.upper_bound():10.4f}"
        )
    if options.json:
        found = {"shape": shape, "machine": machine, "results": [r.to_json() for r in results]}
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("rows", 100_000), ("dim", 768), ("queries", 10_000), ("k", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--repetitions", type=int, default=9, help="pairs; at least 7 to be quoted")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--miner", nargs="+", default=["exact", "faiss"], help="faiss is flat")
    parser.add_argument("--json", metavar="FILE", help="every time of every pair")
    return parser


def _job(folder: Path, options: argparse.Namespace) -> MiningJob:
    rng = np.random.default_rng(0)
    bank = _unit(rng.standard_normal((options.rows, options.dim), dtype=np.float32))
    np.savez(folder / "bank.npz", vectors=bank)
    np.save(
        folder / "queries.npy",
        _unit(rng.standard_normal((options.queries, options.dim), dtype=np.float32)),
    )
    return MiningJob(
        bank=VectorRef(str(folder / "bank.npz"), "vectors"),
        queries=str(folder / "queries.npy"),
        k=options.k,
        miner="exact",
        context=MinerContext(
            threads=options.threads, seed=0, deterministic=True, budget_bytes=1 << 30
        ),
        out=str(folder / "found"),
        cache=str(folder / "cache"),
    )


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _measure(job: MiningJob, miner: str, repetitions: int) -> Result:
    job = job.with_miner(MinerChoice(name=miner))
    seconds: dict[Isolation, list[float]] = {arm: [] for arm in ARMS}
    with contextlib.ExitStack() as stack:
        workers = {arm: stack.enter_context(MinerWorkers(isolation=arm, say=print)) for arm in ARMS}
        for arm in ARMS:
            _request(workers[arm], job)  # imports and index: warm from here on
        for number in range(repetitions):
            for arm in ARMS if number % 2 == 0 else reversed(ARMS):
                seconds[arm].append(_request(workers[arm], job))
            print(f"{miner}: " + ", ".join(f"{arm} {seconds[arm][-1]:.3f} s" for arm in ARMS))
    return Result(miner=miner, none_s=seconds["none"], process_s=seconds["process"])


def _request(workers: MinerWorkers, job: MiningJob) -> float:
    shutil.rmtree(job.out, ignore_errors=True)
    began = time.perf_counter()
    workers.mine(job, [], deadline_s=lambda _: 3600.0, progress=lambda done, total: None)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
