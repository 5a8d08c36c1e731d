"""The miner `exact`: a blocked scan of the whole bank, where it lies. No index, recall 1.0."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ttf.contracts import Availability, MinerContext, MinerCost, MinerTraits
from ttf.hookspecs import hookimpl
from ttf.options import NoOptions

if TYPE_CHECKING:
    from ttf.contracts import Miner, MinerFactory

# Processor time per thread: the products, and the selection per query, which grew with the root of
# the rows. 2 x Zen 5, AVX512, torch 2.13.0, 10,000 and 50,000 rows of 64 to 768, 4,096 queries,
# k = 200, 2026-11-18, on a loaded machine.
FLOPS_PER_S = 2.0e11
SELECTION_S = 1.9e-6


class ExactFactory:
    name = "exact"
    options_type = NoOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("torch") is None:
            return Availability(ok=False, reason="torch is missing", fix="pip install torch")
        return Availability(ok=True)

    def traits(self, options: NoOptions, context: MinerContext) -> MinerTraits:
        return MinerTraits(exact=True, deterministic=True, has_index=False, needs_torch=True)

    def estimate(
        self, rows: int, dim: int, queries: int, k: int, options: NoOptions, context: MinerContext
    ) -> MinerCost:
        per_query_s = 2.0 * rows * dim / FLOPS_PER_S + SELECTION_S * rows**0.5
        return MinerCost(
            build_s=0.0,
            search_s=queries * per_query_s / context.threads,
            anon_bytes=min(context.budget_bytes, (32 << 20) + queries * (4 * dim + 24 * k)),
            disk_bytes=0,
        )

    def create(self, options: NoOptions, context: MinerContext) -> Miner:
        from ttf_miners._exact_scan import ExactMiner

        return ExactMiner(context)


@hookimpl
def ttf_miner(name: str) -> MinerFactory | None:
    return ExactFactory() if name == "exact" else None
