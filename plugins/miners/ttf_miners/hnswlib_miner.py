"""The miner `hnswlib`: one graph over the bank; slow to build, quick to search."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class HnswlibOptions:
    M: int = option(32, "links per row", unit="links", ge=2, le=512)
    ef_construction: int = option(
        200, "candidates compared per row during the build", unit="rows", ge=1, le=100_000
    )
    ef_search: int = option(
        256, "candidates compared per query; at least k", unit="rows", ge=1, le=1_000_000
    )


class HnswlibFactory:
    name = "hnswlib"
    options_type = HnswlibOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("hnswlib") is None:
            return Availability(
                ok=False,
                reason="hnswlib is not installed",
                fix='pip install "twotower[hnswlib]" (needs a C++ compiler)',
            )
        return Availability(ok=True)

    def traits(self, options: HnswlibOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(
            exact=False,
            deterministic=context.deterministic or context.threads == 1,
            has_index=True,
            native=("hnswlib",),
        )

    def estimate(
        self,
        rows: int,
        dim: int,
        queries: int,
        k: int,
        options: HnswlibOptions,
        context: MinerContext,
    ) -> MinerCost:
        size = index_bytes(rows, dim, options.M)
        return _graph_cost.cost(rows, dim, queries, k, options, context, size)

    def create(self, options: HnswlibOptions, context: MinerContext) -> Miner:
        from ttf_miners._hnswlib_index import HnswlibMiner

        return HnswlibMiner(options, context)


def index_bytes(rows: int, dim: int, links: int) -> int:
    # Vectors, links of the lowest level (2 M) and above, a lock and a label per row.
    return rows * (4 * dim + 9 * links + 80)


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return HnswlibFactory() if name == "hnswlib" else None
