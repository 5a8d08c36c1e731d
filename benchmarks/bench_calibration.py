"""What a calibration costs beside one exact mining round with as many queries, and its memory.

    python benchmarks/bench_calibration.py                         # 771,115 x 768, 20,000 queries
    python benchmarks/bench_calibration.py --rows 30000 --dim 128 --queries 4000

Both read the same float32 bank on disk and use the same threads: the round finds the 200 best rows
of every query, the calibration the mean of every row's best queries, and ranks 2,000 held-out pairs
with each strength. They take turns; the ratio is of their medians. Peaks are of anonymous memory, each in a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.sources import MemorySource
from ttf.data.vectors import unit_rows
from ttf.mining.scan.bank_scan import BankScan
from ttf.mining.scan.mean_of_best import MeanOfBest
from ttf.mining.scan.scan_counters import ScanTally
from ttf.training.calibration.choose import GRID
from ttf.training.calibration.ranks import Ranked, ranks_by_factor
from ttf.training.calibration.sample import draw_documents
from ttf.training.documents import Documents

BLOCK_ROWS, K, NEIGHBOURS, HELD_OUT = 8192, 200, 30, 2000


def made(folder: Path, rows: int, dim: int, queries: int) -> None:
    rng = np.random.default_rng(0)
    bank = np.lib.format.open_memmap(
        folder / "bank.npy", mode="w+", dtype=np.float32, shape=(rows, dim)
    )
    topics = rng.standard_normal((256, dim)).astype(np.float32)
    for start in range(0, rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, rows)
        noise = rng.standard_normal((stop - start, dim), dtype=np.float32)
        bank[start:stop] = unit_rows(noise + topics[rng.integers(0, 256, stop - start)])
    bank.flush()
    positives = rng.integers(0, rows, queries)
    np.save(folder / "positives.npy", positives)
    asked = bank[positives] * np.float32(4)
    asked += rng.standard_normal((queries, dim)).astype(np.float32) / np.sqrt(np.float32(dim))
    np.save(folder / "queries.npy", unit_rows(asked))


def round_of_mining(folder: Path, threads: int) -> None:
    bank = np.load(folder / "bank.npy", mmap_mode="r")
    scan = BankScan(
        MemorySource(bank), cache=None, threads=threads, budget_bytes=1 << 30, say=print
    )
    scan.top_k(np.load(folder / "queries.npy"), K, ScanTally())
    scan.close()


def calibration(folder: Path, threads: int) -> None:
    bank = np.load(folder / "bank.npy", mmap_mode="r")
    mean = MeanOfBest(np.load(folder / "queries.npy"), NEIGHBOURS, threads)
    values = np.empty(len(bank), np.float32)
    for start in range(0, len(bank), BLOCK_ROWS):
        values[start : start + BLOCK_ROWS] = mean.of(np.array(bank[start : start + BLOCK_ROWS]))
    chosen(folder, bank, values)


def chosen(folder: Path, bank: NDArray[np.float32], values: NDArray[np.float32]) -> None:
    """As `ttf.training.calibration` ranks: all strengths with one product."""
    known = np.load(folder / "positives.npy")[:HELD_OUT, None]
    queries = torch.from_numpy(np.load(folder / "queries.npy")[:HELD_OUT])
    ids = draw_documents(len(bank), known, 0, "bench")
    documents = cast("Documents", Rows(bank))
    ranked = Ranked(documents, ids, values[ids], lambda done, total: None)
    ranks_by_factor(ranked, queries, known, (0.0, *GRID))


class Rows:
    """What `Ranked` needs of documents."""

    block_rows = BLOCK_ROWS

    def __init__(self, bank: NDArray[np.float32]) -> None:
        self._bank = bank

    def vectors(self, ids: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._bank[ids])


WORK = {"mining": round_of_mining, "calibration": calibration}


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def measured(name: str, folder: Path, threads: int) -> dict[str, float]:
    """In this process, which does nothing else."""
    peak, over = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.02):
            peak = max(peak, anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    WORK[name](folder, threads)
    after = resource.getrusage(resource.RUSAGE_SELF)
    over.set()
    watcher.join()
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mb": peak / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=771_115)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", choices=sorted(WORK), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, given.folder, given.threads)))
        return
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        made(folder, given.rows, given.dim, given.queries)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in WORK}
        for _ in range(given.repeats):
            for one in WORK:
                words = ["--one", one, "--folder", str(folder), "--threads", str(given.threads)]
                done = subprocess.run(
                    [sys.executable, __file__, *words], check=True, capture_output=True, text=True
                )
                found[one].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{given.rows:,} x {given.dim}, {given.queries:,} queries, {given.threads} threads")
    middle = {
        one: {key: statistics.median(line[key] for line in lines) for key in lines[0]}
        for one, lines in found.items()
    }
    for one, values in middle.items():
        shown = ", ".join(f"{key} {value:.2f}" for key, value in values.items())
        print(f"{one:12} {shown}")
    for key in ("wall_s", "cpu_s"):
        print(
            f"calibration / mining, {key}: {middle['calibration'][key] / middle['mining'][key]:.2f}"
        )


if __name__ == "__main__":
    main()
