"""Cost and recall of a graph index, the same for all libraries.

Static rates, fitted to benchmarks/measured/miners.csv; `bench_miners.py --check` compares. Imports
only `ttf`.
"""

from __future__ import annotations

import math
from typing import Protocol

from ttf import MinerContext, MinerCost

# Per candidate, float and fourth root of the rows, with 32 links a row: a candidate's links are
# followed, and the larger the bank, the fewer of them are in a cache. 2 x Zen 5 with 32 MB of L3,
# faiss-cpu 1.15.1 and hnswlib 0.8.0, 52,000 x 384 and 100,000 x 768, 2026-11-18.
CANDIDATE_S = 3.5e-10
_LINKS = 32
_ENTRY = 10  # candidates on the way down to the lowest level

# Between real text, which missed half of this, and the synthetic bank, which missed over twice.
_MISSED = 0.028
_FURTHER = 3.1  # doubling the search width divides the misses by nine
_MEASURED_ROWS = 52_000


class GraphOptions(Protocol):
    """The options of a graph miner."""

    @property
    def M(self) -> int: ...
    @property
    def ef_construction(self) -> int: ...
    @property
    def ef_search(self) -> int: ...


def cost(
    rows: int,
    dim: int,
    queries: int,
    k: int,
    options: GraphOptions,
    context: MinerContext,
    size_bytes: int,
) -> MinerCost:
    """Returns the cost of a graph of `size_bytes`, in memory and on disk."""
    builders = 1 if context.deterministic else context.threads
    links, threads = options.M, context.threads
    return MinerCost(
        build_s=build_s(rows, dim, links, options.ef_construction, builders),
        search_s=search_s(rows, dim, queries, k, links, options.ef_search, threads),
        anon_bytes=size_bytes,
        disk_bytes=size_bytes,
        recall=recall(rows, k, links, options.ef_search),
    )


def build_s(rows: int, dim: int, links: int, width: int, threads: int) -> float:
    # Each row looks at `width` candidates before it is linked.
    return rows * _walk_s(rows, dim, links, width) / threads


def search_s(
    rows: int, dim: int, queries: int, k: int, links: int, width: int, threads: int
) -> float:
    # A walk keeps at least k candidates.
    return queries * _walk_s(rows, dim, links, max(width, k)) / threads


def recall(rows: int, k: int, links: int, width: int) -> float:
    """Expected share of the true k best, of text vectors.

    >>> round(recall(52_000, 200, 32, 256), 3), round(recall(52_000, 200, 32, 512), 3)
    (0.987, 0.998)
    """
    missed = _MISSED * math.pow(k / max(width, k), _FURTHER)
    return max(0.0, 1.0 - missed * math.sqrt(rows / _MEASURED_ROWS) * _LINKS / links)


def _walk_s(rows: int, dim: int, links: int, width: int) -> float:
    follow_s = CANDIDATE_S * max(dim, 64) * math.sqrt(math.sqrt(max(rows, 1000))) * links / _LINKS
    return follow_s * (width + _ENTRY)
