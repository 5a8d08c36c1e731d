"""Builds the index of the run's library at its shapes on random vectors, and searches as often as
the run had done.

The vectors are random and of unit length: a fault that needs the run's own vectors does not show.
"""

from __future__ import annotations

import faulthandler
import importlib
import sys
import time
from typing import Any

import numpy as np

# --- settings: what the run had ---
LIBRARY: str = "faiss"
KIND: str = "flat"
ROWS: int = 1000
DIM: int = 32
QUERIES: int = 200
K: int = 20
LINKS: int = 32
EF_CONSTRUCTION: int = 200
EF_SEARCH: int = 256
LISTS: int = 0
PROBES: int = 64
THREADS: int = 1
ONE_BUILDER: bool = True
WITH_TORCH: bool = False
ROUNDS: int = 3
SEED: int = 0
HANG_AFTER_S: float = 0.0
# --- end of the settings ---

BLOCK = 8192


def unit_rows(rng: np.random.Generator, count: int) -> Any:
    vectors = rng.standard_normal((count, DIM), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def build(bank: Any) -> Any:
    if LIBRARY == "faiss":
        return build_faiss(importlib.import_module("faiss"), bank)
    if LIBRARY == "hnswlib":
        index = importlib.import_module("hnswlib").Index(space="ip", dim=DIM)
        index.init_index(
            max_elements=len(bank), ef_construction=EF_CONSTRUCTION, M=LINKS, random_seed=SEED
        )
        for start in range(0, len(bank), BLOCK):
            block = bank[start : start + BLOCK]
            ids = np.arange(start, start + len(block))
            index.add_items(block, ids, num_threads=1 if ONE_BUILDER else THREADS or -1)
        index.set_ef(max(EF_SEARCH, K))
        return index
    return importlib.import_module("torch").from_numpy(bank)


def build_faiss(faiss: Any, bank: Any) -> Any:
    if THREADS:
        faiss.omp_set_num_threads(1 if KIND == "hnsw" and ONE_BUILDER else THREADS)
    if KIND == "hnsw":
        index = faiss.IndexHNSWFlat(DIM, LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = EF_CONSTRUCTION, max(EF_SEARCH, K)
    elif KIND == "ivf":
        lists = max(1, min(LISTS or round(4 * len(bank) ** 0.5), len(bank) // 39))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(DIM), DIM, lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = min(PROBES, lists)
        index.train(bank[: 64 * lists])
    else:
        index = faiss.IndexFlatIP(DIM)
    for start in range(0, len(bank), BLOCK):
        index.add(bank[start : start + BLOCK])
    return index


def search(index: Any, queries: Any) -> None:
    k = min(K, ROWS)
    if LIBRARY == "faiss":
        if THREADS:
            importlib.import_module("faiss").omp_set_num_threads(THREADS)
        index.search(queries, k)
    elif LIBRARY == "hnswlib":
        index.knn_query(queries, k=k, num_threads=THREADS or -1)
    else:
        torch = importlib.import_module("torch")
        torch.topk(torch.from_numpy(queries) @ index.T, k, dim=1)


def load_torch() -> None:
    """The miner shared the trainer's process, where torch had computed before."""
    torch = importlib.import_module("torch")
    if THREADS:
        torch.set_num_threads(THREADS)
    (torch.randn(256, 256, requires_grad=True) @ torch.randn(256, 256)).sum().backward()
    print(f"torch {torch.__version__} has computed in this process", flush=True)


def main() -> int:
    faulthandler.enable()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    if WITH_TORCH:
        load_torch()
    rng = np.random.default_rng(SEED)
    print(f"{LIBRARY} {KIND}: {ROWS:,} x {DIM}, {QUERIES:,} queries, k {K}, {THREADS} threads")
    bank = unit_rows(rng, ROWS)
    for number in range(1, rounds + 1):
        if HANG_AFTER_S:  # a round that takes longer ends the script, with its stacks
            faulthandler.dump_traceback_later(HANG_AFTER_S, exit=True)
        began = time.monotonic()
        index = build(bank)
        print(f"round {number} of {rounds}: built in {time.monotonic() - began:.1f} s", flush=True)
        for start in range(0, QUERIES, 4096):
            search(index, unit_rows(rng, min(4096, QUERIES - start)))
        print(f"round {number} of {rounds}: searched, {time.monotonic() - began:.1f} s", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"did not crash in {rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
