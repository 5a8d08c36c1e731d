"""The miner `faiss`: an exact streamed scan (flat), a graph (hnsw) or inverted lists (ivf)."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import Literal

from ttf import (
    Availability,
    Miner,
    MinerContext,
    MinerCost,
    MinerFactory,
    MinerTraits,
    hookimpl,
    option,
)
from ttf_miners import _graph_cost

# Fitted to benchmarks/measured/miners.csv (2 x Zen 5, AVX512, faiss-cpu 1.15.1, k = 200, 2026-11-18);
# `bench_miners.py --check` sets them against it. Processor time per thread.
FLAT_FLOPS_PER_S = 0.8e11
TRAIN_FLOPS_PER_S = 1.0e11
# Lower, because lists are scanned query by query at the speed of memory.
LIST_FLOPS_PER_S = 1.4e10
KEEP_S = 1.0e-7  # for each of the k kept of a query
# A search in this share of the lists misses exp(-5.8 share^0.42) of the true best.
_FOUND, _SHARE = 5.8, 0.42

KMEANS_ROUNDS = 10
TRAIN_ROWS_PER_LIST = 64
# With fewer rows per list, faiss's k-means warns about poor centroids.
MIN_ROWS_PER_LIST = 39


@dataclass(frozen=True, kw_only=True)
class FaissOptions:
    kind: Literal["flat", "hnsw", "ivf"] = option(
        "flat", "flat: exact, builds no index; hnsw: a graph, slow to build; ivf: quick to build"
    )
    M: int = option(32, "hnsw: links per row", unit="links", ge=2, le=512)
    ef_construction: int = option(
        200, "hnsw: candidates compared per row during the build", unit="rows", ge=1, le=100_000
    )
    ef_search: int = option(
        256, "hnsw: candidates compared per query; at least k", unit="rows", ge=1, le=1_000_000
    )
    nlist: int = option(
        0,
        "ivf: number of lists; 0: 4 x the square root of the number of rows",
        unit="lists",
        ge=0,
        le=2**22,
    )
    nprobe: int = option(64, "ivf: lists searched per query", unit="lists", ge=1, le=2**22)


class FaissFactory:
    name = "faiss"
    options_type = FaissOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("faiss") is None:
            return Availability(
                ok=False, reason="faiss is not installed", fix='pip install "twotower[faiss]"'
            )
        return Availability(ok=True)

    def traits(self, options: FaissOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(
            exact=options.kind == "flat",
            deterministic=options.kind != "hnsw" or context.deterministic or context.threads == 1,
            has_index=options.kind != "flat",
            native=("faiss",),
        )

    def estimate(
        self,
        rows: int,
        dim: int,
        queries: int,
        k: int,
        options: FaissOptions,
        context: MinerContext,
    ) -> MinerCost:
        if options.kind == "flat":
            return _flat_cost(rows, dim, queries, k, context)
        if options.kind == "hnsw":
            size = hnsw_bytes(rows, dim, options.M)
            return _graph_cost.cost(rows, dim, queries, k, options, context, size)
        return _ivf_cost(rows, dim, queries, k, options, context)

    def create(self, options: FaissOptions, context: MinerContext) -> Miner:
        from ttf_miners import _faiss_index, _faiss_scan

        if options.kind == "flat":
            return _faiss_scan.FlatScan(options, context)
        if options.kind == "hnsw":
            return _faiss_index.HnswIndex(options, context)
        return _faiss_index.IvfIndex(options, context)


def num_lists(rows: int, wanted: int) -> int:
    """Returns the number of inverted lists: as requested, but limited by the rows."""
    return max(1, min(wanted or round(4 * rows**0.5), rows // MIN_ROWS_PER_LIST))


def hnsw_bytes(rows: int, dim: int, links: int) -> int:
    # Vectors, two links per row and M on the lowest level, offsets and levels.
    return rows * (4 * dim + 9 * links + 16)


def ivf_bytes(rows: int, dim: int) -> int:
    # Codes and ids. The lists grow by doubling, so half as much again may be reserved.
    return int(1.5 * rows * (4 * dim + 8))


def _flat_cost(rows: int, dim: int, queries: int, k: int, context: MinerContext) -> MinerCost:
    flops = 2.0 * rows * dim * queries
    at_once = min(queries, context.queries_at_once)
    return MinerCost(
        build_s=0.0,
        search_s=flops / (FLAT_FLOPS_PER_S * context.threads),
        anon_bytes=min(context.budget_bytes, 4 * rows * dim + 36 * at_once * k),
        disk_bytes=0,
    )


def _ivf_cost(
    rows: int, dim: int, queries: int, k: int, options: FaissOptions, context: MinerContext
) -> MinerCost:
    lists = num_lists(rows, options.nlist)
    train = 2.0 * min(rows, TRAIN_ROWS_PER_LIST * lists) * lists * dim * KMEANS_ROUNDS
    assign = 2.0 * rows * lists * dim
    share = min(options.nprobe, lists) / lists
    nearest_s = 2.0 * lists * dim / TRAIN_FLOPS_PER_S
    scan_s = 2.0 * rows * dim * share / LIST_FLOPS_PER_S
    return MinerCost(
        build_s=(train + assign) / (TRAIN_FLOPS_PER_S * context.threads),
        search_s=queries * (nearest_s + scan_s + KEEP_S * k) / context.threads,
        anon_bytes=ivf_bytes(rows, dim),
        disk_bytes=rows * (4 * dim + 8),
        recall=1.0 if share == 1 else 1.0 - math.exp(-_FOUND * share**_SHARE),
    )


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return FaissFactory() if name == "faiss" else None
