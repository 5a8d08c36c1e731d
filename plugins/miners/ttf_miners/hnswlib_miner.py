"""The miner `hnswlib`: one graph over the bank; slow to build, quick to search."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttf.contracts import Availability, MinerContext, MinerCost, MinerTraits
from ttf.hookspecs import hookimpl
from ttf.options import option

if TYPE_CHECKING:
    from ttf.contracts import Miner, MinerFactory

# Vectors of 768 compared per second and thread, building and searching (M x ef of them a row):
# 2 x Zen 5, AVX512, hnswlib 0.8.0, 50,000 unit rows of 384 and 768, k = 200, 2026-11-18.
DISTANCES_PER_S = 1.6e7


@dataclass(frozen=True, kw_only=True)
class HnswlibOptions:
    M: int = option(32, "links per row", ge=2, le=512)
    ef_construction: int = option(200, "candidates looked at while building", ge=1)
    ef_search: int = option(256, "candidates looked at per query; at least k", ge=1)


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
        # A walk through a graph grows with the logarithm of its rows.
        per_s = DISTANCES_PER_S * 768 / max(dim, 64) * math.log(50_000) / math.log(max(rows, 1000))
        builders = 1 if context.deterministic else context.threads
        looked_at = options.M * (max(options.ef_search, k) + 10)
        size = index_bytes(rows, dim, options.M)
        return MinerCost(
            build_s=rows * options.M * (options.ef_construction + 10) / (per_s * builders),
            search_s=queries * looked_at / (per_s * context.threads),
            anon_bytes=size,
            disk_bytes=size,
        )

    def create(self, options: HnswlibOptions, context: MinerContext) -> Miner:
        from ttf_miners._hnswlib_index import HnswlibMiner

        return HnswlibMiner(options, context)


def index_bytes(rows: int, dim: int, links: int) -> int:
    """Vectors, links of the lowest level (2 M) and above, a lock and a label per row."""
    return rows * (4 * dim + 9 * links + 80)


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return HnswlibFactory() if name == "hnswlib" else None
