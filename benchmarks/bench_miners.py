"""What determinism costs hnswlib, and what each miner takes, on the real bank of definitions.

Builds alternate between the deterministic one (one thread) and the free-running one (all threads);
printed are medians with their spread, the ratio, whether two builds agree, and recall@100 of 2,000
training queries against the exact scan.

    python benchmarks/bench_miners.py --data ../shared/data/wordnet-definitions
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ttf import host
from ttf.contracts import MinerContext
from ttf.data.refs import VectorRef, open_ref

K = 100


def once(name: str, options: Any, source: Any, queries: Any, *, threads: int, free: bool) -> Any:
    """(seconds to build, seconds to search, ids)."""
    factory = host.miner(name)
    context = MinerContext(threads=threads, seed=0, deterministic=not free, budget_bytes=8 << 30)
    miner = factory.create(factory.options_type(**options), context)
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        miner.build(source, Path(scratch))
        built = time.perf_counter()
        ids, _ = miner.search(queries, K)
        done = time.perf_counter()
    miner.close()
    return built - began, done - built, ids


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"


def recall(found: Any, exact: Any) -> float:
    shared = [len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]
    return float(np.mean(shared)) / K


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/wordnet-definitions"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    pairs = str(given.data / "pairs.npz")
    with (
        open_ref(VectorRef(str(given.data / "bank.npz"), "vectors", unit=True)) as bank,
        open_ref(VectorRef(pairs, "X_train", unit=True)) as train,
    ):
        queries = train.source.gather(np.arange(0, 46_000, 23, dtype=np.int64))
        _, exact_s, exact = once(
            "exact", {}, bank.source, queries, threads=given.threads, free=False
        )
        print(f"bank {bank.source.shape}, {len(queries)} queries, k = {K}, {given.threads} threads")
        print(f"exact: search {exact_s:.2f} s")
        builds: dict[bool, list[float]] = {False: [], True: []}
        found: dict[bool, list[Any]] = {False: [], True: []}
        for _ in range(given.repeats):
            for free in (False, True):
                build_s, _, ids = once(
                    "hnswlib", {}, bank.source, queries, threads=given.threads, free=free
                )
                builds[free].append(build_s)
                found[free].append(ids)
        for free, name in ((False, "deterministic, one thread"), (True, "free-running")):
            agree = all(np.array_equal(found[free][0], other) for other in found[free][1:])
            print(
                f"hnswlib, {name}: build {spread(builds[free])}, two builds agree: {agree}, "
                f"recall@{K} {recall(found[free][0], exact):.4f}"
            )
        ratios = [a / b for a, b in zip(builds[False], builds[True], strict=True)]
        print(f"deterministic / free-running: {spread(ratios).replace(' s', '')}")
        for kind in ("flat", "hnsw", "ivf"):
            build_s, search_s, ids = once(
                "faiss", {"kind": kind}, bank.source, queries, threads=given.threads, free=False
            )
            print(
                f"faiss {kind}: build {build_s:.2f} s, search {search_s:.2f} s, "
                f"recall@{K} {recall(ids, exact):.4f}"
            )


if __name__ == "__main__":
    main()
